# SPDX-License-Identifier: Apache-2.0
"""Talk to ELIZA in a terminal: pip install openai, then python chat.py."""

import sys

from openai import OpenAI

address = sys.argv[1] if len(sys.argv) > 1 else "localhost:8080"
client = OpenAI(base_url=f"http://{address}/v1", api_key="none")
messages = []
for line in sys.stdin:
    messages.append({"role": "user", "content": line.strip()})
    stream = client.chat.completions.create(model="eliza", messages=messages, stream=True)
    reply = ""
    for chunk in stream:
        piece = chunk.choices[0].delta.content or ""
        print(piece, end="", flush=True)
        reply += piece
    print()
    messages.append({"role": "assistant", "content": reply})
