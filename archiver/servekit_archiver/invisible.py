# SPDX-License-Identifier: Apache-2.0
"""Characters that a reader cannot see, or cannot tell from a space."""

import re
from typing import Final
from unicodedata import category

__all__ = ["invisible_character"]

#: What Unicode 16 says is not drawn (DerivedCoreProperties.txt, Default_Ignorable_Code_Point) and
#: ``category`` does not: fillers, joiners, variation selectors, tags, and code points that are
#: reserved for more of them. A table, so that every Python refuses the same names.
IGNORABLE: Final = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff"
)
#: characters whose glyph is blank (the names list of the Unicode code charts): Braille pattern
#: blank, object replacement, null notehead, Khitan filler, and the two Egyptian blanks
BLANK: Final = "\u2800\ufffc\U0001d159\U00016fe4\U00013441\U00013442"
#: code points that stand for no character and never will (The Unicode Standard, 23.7)
NONCHARACTERS: Final = "\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
)
LISTED: Final = re.compile(f"[{IGNORABLE}{BLANK}{NONCHARACTERS}]")
#: format characters, line and paragraph separators, and spaces: that of ASCII is an ordinary one
CATEGORIES: Final = frozenset(("Cf", "Zl", "Zp", "Zs"))


def invisible_character(text: str) -> str:
    """Return the first character of *text* that shows nothing, or ``""``."""
    if text.isascii():
        return ""
    return next((each for each in text if not each.isascii() and _is_invisible(each)), "")


def _is_invisible(character: str) -> bool:
    return category(character) in CATEGORIES or LISTED.match(character) is not None
