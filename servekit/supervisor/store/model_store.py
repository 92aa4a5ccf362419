# SPDX-License-Identifier: Apache-2.0
"""Lets the server serve what is in a directory of archives."""

from collections.abc import Callable, Sequence

from servekit.ipc.operations import Load, OperationRow
from servekit.settings import Settings
from servekit.settings.models import ModelSource
from servekit.supervisor.models.model import Model
from servekit.supervisor.models.version_source import VersionSource
from servekit.supervisor.operations.loading import load_model
from servekit.supervisor.operations.progress import OperationFailed, Progress
from servekit.supervisor.operations.server import OperatedServer
from servekit.supervisor.os.coroutines import run_coroutine
from servekit.supervisor.reporting import notices
from servekit.supervisor.reporting.journal import Journal, Notice
from servekit.supervisor.store.child import StoreChild, first_content
from servekit.supervisor.store.messages import ReadStore, StoreContent, StoredModel, newest

__all__ = ["FirstLook", "ModelStore"]


class FirstLook:
    """The content of the store when a server starts."""

    def __init__(
        self,
        settings: Settings,
        configured: Sequence[ModelSource],
        loaded: Sequence[str],
        journal: Journal,
    ) -> None:
        """Read the store; there may be none. Blocks.

        :param configured: the other models, which win.
        :param loaded: names of models that were loaded at run time, which win too.
        :raises StartupError: it cannot be read.
        """
        self.models: list[StoredModel] = []  #: to serve
        self.all: list[StoredModel] = []
        if not settings.model_store:
            return
        unnamed = [each.path for each in configured if not each.name and not each.is_url]
        content = first_content(ReadStore(settings.model_store, unnamed))
        tell(content, journal)
        taken = [*content.taken, *loaded, *(each.provisional_name for each in configured)]
        folded = {name.casefold() for name in taken}
        self.all = content.models
        for model in newest(content.models):
            if model.name.casefold() in folded:
                journal.notice(outranked(model))
            else:
                self.models.append(model)

    @property
    def sources(self) -> list[ModelSource]:
        """The models to serve."""
        return [model.source for model in self.models]


class ModelStore:
    """Brings the models of a running server in line with the store.

    Each name is followed by one coroutine at a time, so that a slow model delays no other.
    """

    def __init__(
        self,
        server: OperatedServer,
        directory: str,
        first: FirstLook,
        save: Callable[[], object],
    ) -> None:
        """Do nothing yet; the registry has the models of *first*.

        :param save: writes the state file.
        """
        self._server = server
        self._directory = directory
        self._save = save
        self._held = {model.name.casefold(): model for model in first.models}
        self._content = first.all
        self._refused: set[StoredModel] = set()  #: an older one of the name serves, if possible
        self._busy: set[str] = set()  #: names that a coroutine follows
        self._outranked: set[StoredModel] = set()
        self._child: StoreChild | None = None

    @property
    def pid(self) -> int | None:
        """The child, while it runs."""
        return self._child.pid if self._child else None

    def beside(self, configured: Sequence[ModelSource]) -> list[ModelSource]:
        """Return the sources of the models from here, without those that *configured* name.

        What was refused is not among them; what an operator has unloaded is.
        """
        taken = {source.provisional_name.casefold() for source in configured}
        return [model.source for name, model in self._present.items() if name not in taken]

    @property
    def _present(self) -> dict[str, StoredModel]:
        """The models that the names stand for, without those that were refused or have left."""
        registry = self._server.registry
        texts = {model.configured for model in registry}
        texts |= {gone.configured for gone in registry.unloaded}
        return {
            name: model
            for name, model in self._held.items()
            if name in self._busy or model.source.text in texts
        }

    def check_first(self) -> None:
        """Try older versions of models that fail at the start."""
        names = self._names()
        for model in self._server.registry:
            if (name := names.get(model.configured)) is not None:
                self._busy.add(name)
                run_coroutine(self._server.loop, self._check_first(name, model))

    def is_following(self, model: Model) -> bool:
        """Whether *model* is from here, and may still load from another archive."""
        return self._names().get(model.configured) in self._busy

    def _names(self) -> dict[str, str]:
        """Return the names that are followed, by what the models are configured as."""
        return {held.source.text: name for name, held in self._held.items()}

    def watch(self) -> None:
        """Follow every change from now on."""
        self._read(is_watched=True)

    def refresh(self) -> None:
        """Look for changes once, unless they are watched; try again what was refused."""
        self._held = self._present
        self._refused.clear()
        self._outranked.clear()
        if self.pid is None:
            self._read(is_watched=False)
        else:
            self._reconcile()

    def kill(self) -> None:
        """Kill the child."""
        if self._child:
            self._child.kill()

    def _read(self, *, is_watched: bool) -> None:
        request = ReadStore(self._directory, is_watched=is_watched)
        registry = self._server.registry
        self._child = StoreChild(self._server.loop, registry.reporter, request, self._received)

    def _received(self, content: StoreContent) -> None:
        tell(content, self._server.registry.reporter)
        self._content = content.models
        self._refused.intersection_update(content.models)
        self._outranked.intersection_update(content.models)
        self._reconcile()

    # ------------------------------------------------------------------ one name

    def _reconcile(self, *names: str) -> None:
        """Begin to follow each name of which something else is wanted; only *names*, if given."""
        wanted = {each.name.casefold(): each for each in newest(self._content, self._refused)}
        for name in sorted(names or wanted.keys() | self._held.keys()):
            old, new = self._held.get(name), wanted.get(name)
            if new is not None and not self._may_serve(new):
                new = None
            if old != new and name not in self._busy:
                self._busy.add(name)
                run_coroutine(self._server.loop, self._follow(name, old, new))

    def _may_serve(self, model: StoredModel) -> bool:
        """Whether no model from elsewhere has the name."""
        ours = {held.source.text for held in self._held.values()}
        for other in self._server.registry:
            if other.name.casefold() == model.name.casefold() and other.configured not in ours:
                if model not in self._outranked:
                    self._server.registry.reporter.notice(outranked(model))
                self._outranked.add(model)
                return False
        return True

    async def _follow(self, name: str, old: StoredModel | None, new: StoredModel | None) -> None:
        """Load, replace or unload the model *name*."""
        registry, configured = self._server.registry, new.source.text if new else ""
        model = next((m for m in registry if old and m.configured == old.source.text), None)
        self._hold(name, new)
        if model is not None:
            model.configured = configured
            await model.work.until_idle()
        if model is None:
            await self._load(new)
        elif model not in registry or model.configured != configured:
            pass  # it was unloaded, or the configuration names it now
        elif new is not None:
            await self._replace(model, new, has_moved=old is not None and old.path != new.path)
        else:
            registry.reporter.notice(Notice("left_store", name, "has left the model store"))
            registry.remove(model)
        self._save()
        self._let_go(name)

    def _let_go(self, name: str) -> None:
        """Follow *name* no further, unless something else is wanted of it already."""
        self._busy.discard(name)
        self._reconcile(name)
        self._server.registry.changed()  # the start may wait for it

    def _hold(self, name: str, new: StoredModel | None) -> None:
        """Note what the name stands for now; its file counts as one of the configuration."""
        registry, old = self._server.registry, self._held.pop(name, None)
        others = [each for each in registry.sources if old is None or each != old.source]
        if new is not None:
            self._held[name] = new
            others.append(new.source)
        registry.sources = others
        texts = {each.text for each in others}
        registry.unloaded = [gone for gone in registry.unloaded if gone.configured in texts]

    async def _load(self, new: StoredModel | None) -> None:
        """Serve *new* once it has loaded, unless an operator has unloaded it."""
        registry, unloaded = self._server.registry, self._server.registry.unloaded
        if new is None or any(gone.configured == new.source.text for gone in unloaded):
            return
        newcomer = registry.newcomer(VersionSource(new.path, new.name))
        newcomer.configured = new.source.text
        progress = Progress(OperationRow("", "load", new.name), registry.changed)
        work = load_model(self._server, newcomer, Load(source=new.path, model=new.name), progress)
        with newcomer.work.occupied("load"):
            try:
                await work
            except OperationFailed as error:
                self._refused.add(new)
                registry.reporter.notice(notices.model_failed(new.name, str(error)))
            else:
                newcomer.is_changed = False  # not by an operator
                registry.reporter.notice(Notice("loaded", newcomer.label, f"serves {new.path}"))

    async def _replace(self, model: Model, new: StoredModel, *, has_moved: bool) -> None:
        """Let *new* take the place of what *model* serves, if it loads.

        What was swapped in at run time stays until the store has the model at another path.
        """
        if has_moved or not model.is_changed:
            model.source = VersionSource(new.path, new.name)
        self._server.registry.load(model)
        await self._until_settled(model)
        if model.refusal or not model.is_loaded:
            self._refused.add(new)

    async def _check_first(self, name: str, model: Model) -> None:
        """Refuse the first archive of *name* if *model* cannot be loaded from it."""
        first = self._held[name]
        await self._until_settled(model)
        if not model.is_loaded:
            self._refused.add(first)
        self._let_go(name)

    async def _until_settled(self, model: Model) -> None:
        """Return once *model* has loaded, or could not, or is not served any more."""
        registry = self._server.registry
        await model.work.until_idle()
        await model.versions.until(lambda: model.has_settled or model not in registry)


def tell(content: StoreContent, journal: Journal) -> None:
    """Write the remarks about single files to the log."""
    for remark in content.remarks:
        journal.notice(Notice("store_remark", remark.path, remark.text, remark.level))


def outranked(model: StoredModel) -> Notice:
    """``/models/digits.mar is not served: digits is configured ...``."""
    text = f"is not served: {model.name} is configured, or was loaded at run time"
    return Notice("store_outranked", model.path, text, "warning")
