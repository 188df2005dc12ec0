"""Code by its content: one hash for all code that entries reach, independent of files and names.

A definition is a function, a class or an assignment at the top of a module. Its own content is its syntax without
positions, comments, docstrings and hints of arguments. Names that are only references are replaced by numbers: the
definition's own name, local variables, and other definitions of the package, which are its `uses`. The id of a
definition hashes its own content and the ids of its uses, so files may move and names may change.

Entries are "module", "module:name", or a folder with a slash, whose files (for example templates) count by their bytes.
The entry "!module:name" means that the parameters do not select this definition, so its content does not count.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from rtm.core.files import digest
from rtm.lineage.content import Piece, Ref, dotted
from rtm.lineage.definitions import Definition, Graph, identify, reached, short_hash
from rtm.lineage.module import ON_IMPORT, Module, parse
from rtm.lineage.scopes import Import

PACKAGE = Path(__file__).parents[__name__.count(".") - 1]
LEFT_OUT = (
    "rtm.cli",  # the call of a verb
    "rtm.config",  # a receipt has the values of params/ themselves
    "rtm.core.errors",  # texts of errors
    "rtm.core.files",  # reading and writing of files
    "rtm.core.layout",  # paths of files
    "rtm.data.download",  # the origin of a source's bytes; checksums identify the bytes
    "rtm.data.fetch",  # the choice of a source; checksums identify it, too
    "rtm.data.parts",  # messages about weights files that lack a part
    "rtm.lineage",  # decides only what runs again
    "rtm.methods.registry",  # chooses the class that trains, which is an entry of the job
    "rtm.models.registry",  # chooses mapper and generator, which are entries, too
    "rtm.pipeline",  # dependencies of jobs, which are parts of a receipt
    "rtm.core.progress",  # the display during a job
    "rtm.reports.terminal",  # the output of a verb
    "rtm.training.launch",  # start and end of processes
)

Key = tuple[str, str]  # module and name, or folder and file
WHOLE = "*"


class Code:
    """The modules of packages by name, and other files by path. A module is parsed only when it is reached."""

    def __init__(
        self, sources: Mapping[str, str], files: Mapping[str, str] | None = None, left_out: Sequence[str] = LEFT_OUT
    ) -> None:
        self.sources, self.files, self.left_out = dict(sources), dict(files or {}), tuple(left_out)
        self._tops = {name.split(".")[0] for name in sources}
        self._packages = {
            ".".join(parts[:end]) for name in sources for parts in [name.split(".")] for end in range(len(parts))
        }
        self._nodes: dict[Key, tuple[str, tuple[Key, ...]]] = {}
        self._ids: dict[Key, str] = {}
        self._registered: dict[str, list[str]] = {}
        self._found: dict[tuple[str, Ref], tuple[Key | None, str]] = {}
        self._unselected: frozenset[Key] = frozenset()
        self._without: dict[frozenset[str], Code] = {}

    @classmethod
    def of(cls, package: Path) -> "Code":
        """A package as it is on disk. Files that are not Python are represented by their digests."""
        paths = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        named = {path: path.relative_to(package.parent) for path in paths}
        sources = {_module_name(name): path.read_text() for path, name in named.items() if name.suffix == ".py"}
        return cls(sources, {str(name): digest(path) for path, name in named.items() if name.suffix != ".py"})

    def root(self, entries: Sequence[str]) -> str:
        """One hash for all entries; their order does not matter."""
        if selected := self._selected(entries):
            return selected.root(_plain(entries))
        return short_hash(*sorted({self._id(key) for key in self._entered(entries)}))

    def graph(self, entries: Sequence[str]) -> Graph:
        """The graph of the definitions that the entries reach."""
        if selected := self._selected(entries):
            return selected.graph(_plain(entries))
        starts = self._entered(entries)
        keys: dict[str, list[Key]] = {}
        for key in sorted(self.keys(starts)):
            keys.setdefault(self._ids[key], []).append(key)
        return Graph({name: self._definition(same) for name, same in keys.items()}, map(self._id, starts))

    def reached(self, entries: Sequence[str]) -> list[str]:
        """The modules and files that contain the definitions that the entries reach."""
        if selected := self._selected(entries):
            return selected.reached(_plain(entries))
        return sorted(
            {f"{place}/{name}" if "/" in place else place for place, name in self.keys(self._entered(entries))}
        )

    def definitions(self, entries: Sequence[str]) -> set[Key]:
        """The definitions that the entries reach, by module and name."""
        selected = self._selected(entries) or self
        return selected.keys(selected._entered(_plain(entries)))

    def keys(self, starts: Sequence[Key]) -> set[Key]:
        """All definitions that `starts` reach."""
        identify(starts, self._node, self._ids)
        return reached(starts, lambda key: self._node(key)[1])

    def _selected(self, entries: Iterable[str]) -> "Code | None":
        """The same code without the definitions that the parameters do not select; None if all are selected."""
        names = frozenset(entry[1:] for entry in entries if entry.startswith("!"))
        if names and names not in self._without:
            code = Code(self.sources, self.files, self.left_out)
            code._found, code._registered = self._found, self._registered  # the selection does not change these
            code._unselected = frozenset(key for name in names for key in self._entry(name))
            self._without[names] = code
        return self._without.get(names)

    def is_package(self, module: str) -> bool:
        return module in self._packages

    def _entered(self, entries: Iterable[str]) -> list[Key]:
        return [key for entry in entries for key in self._entry(entry)]

    def _entry(self, entry: str) -> list[Key]:
        if "/" in entry:
            folder = entry.rstrip("/")
            return [(folder, name.removeprefix(f"{folder}/")) for name in self.files if name.startswith(f"{folder}/")]
        module, _, name = entry.partition(":")
        key, _ = self._attribute(module, (name,)) if name else (None, "")
        if name and (key is None or key[1] == ON_IMPORT) and not self._is_left_out(module):
            raise KeyError(f"{module} defines no {name}")
        return [key] if key else [] if name else list(self._all(module).values())

    def _all(self, module: str) -> dict[str, Key]:
        """The definitions of a module by name, imported ones among them."""
        if self._is_left_out(module):
            return {}
        parsed, always = self._module(module), {ON_IMPORT: (module, ON_IMPORT)} if self._runs(module) else {}
        linked = {name: self._find(module, Ref(name, ())) for name in parsed.imports}
        imported = {name: key for name, (key, rest) in linked.items() if key and key[1] != WHOLE and not rest}
        return {**imported, **{name: (module, name) for name in parsed.statements}, **always}

    def _id(self, key: Key) -> str:
        if key not in self._ids:
            identify([key], self._node, self._ids)
        return self._ids[key]

    def _definition(self, same: Sequence[Key]) -> Definition:
        own, uses = self._node(same[0])
        names = [("/" if "/" in place else ":").join((place, name)) for place, name in same]
        return Definition(", ".join(names), own, tuple(self._ids[use] for use in uses))

    def _module(self, module: str) -> Module:
        return parse(self.sources.get(module, ""))

    def _node(self, key: Key) -> tuple[str, tuple[Key, ...]]:
        """The own content and the uses of a definition."""
        if key not in self._nodes:
            self._nodes[key] = self._file(key) if "/" in key[0] else self._linked(key)
        return self._nodes[key]

    def _file(self, key: Key) -> tuple[str, tuple[Key, ...]]:
        return short_hash("file", key[1], self.files["/".join(key)]), ()

    def _linked(self, key: Key) -> tuple[str, tuple[Key, ...]]:
        module, name = key
        uses: dict[Key, int] = {}
        texts = [
            part if isinstance(part, str) else self._reference(key, *self._find(module, part), uses)
            for part in self._parts(module, name)
        ]
        if self._runs(module) and name != ON_IMPORT:
            uses.setdefault((module, ON_IMPORT), len(uses))
        return short_hash("".join(texts)), tuple(uses)

    def _parts(self, module: str, name: str) -> Piece:
        parsed = self._module(module)
        if name == WHOLE:  # code that has the module object may use all its names
            named = sorted(self._all(module).keys() - {ON_IMPORT})
            return ("module", *(part for each in named for part in (each, Ref(each, ()))))
        if name == ON_IMPORT:
            return (*parsed.piece(name), *(Ref(each, ()) for each in self._registers(module)))
        return parsed.piece(name)

    def _reference(self, own: Key, key: Key | None, text: str, uses: dict[Key, int]) -> str:
        if key in self._unselected:
            return f"<not selected>{text}"
        if key is None:
            return f"<{text}>"
        return f"<itself>{text}" if key == own else f"<{uses.setdefault(key, len(uses))}>{text}"

    def _runs(self, module: str) -> bool:
        return bool(self._module(module).always or self._registers(module))

    def _registers(self, module: str) -> list[str]:
        """Definitions that a decorator of the package may register somewhere, so that other code finds them."""
        if module not in self._registered:
            self._registered[module] = [
                name
                for name, refs in self._module(module).decorated()
                if any(self._is_ours(module, ref) for ref in refs)
            ]
        return self._registered[module]

    def _is_ours(self, module: str, ref: Ref) -> bool:
        key, text = self._find(module, ref)
        return key is not None or text.startswith("outside the fingerprint")

    # resolve a reference to a definition, or to a text if there is none

    def _find(self, module: str, ref: Ref) -> tuple[Key | None, str]:
        if (module, ref) not in self._found:
            self._found[module, ref] = self._followed(module, ref)
        return self._found[module, ref]

    def _followed(self, module: str, ref: Ref) -> tuple[Key | None, str]:
        parsed = self._module(module)
        if isinstance(ref.name, Import):
            return self._imported(module, ref.name, ref.chain)
        if ref.name in parsed.statements:
            return (module, ref.name), dotted(ref.chain)
        if ref.name in parsed.imports:
            return self._imported(module, parsed.imports[ref.name], ref.chain)
        return None, f"global {ref.name}{dotted(ref.chain)}"

    def _imported(
        self, module: str, target: Import, chain: tuple[str, ...], seen: frozenset[Key] = frozenset()
    ) -> tuple[Key | None, str]:
        parts = module.split(".") if target.level else []
        up = target.level - self.is_package(module)
        source = ".".join([*parts[: len(parts) - up], *([target.module] if target.module else [])])
        names = (*target.names, *chain)
        if source.split(".")[0] in self._tops:
            return self._attribute(source, names, seen)
        return None, f"foreign {source}{dotted(names)}"

    def _attribute(
        self, module: str, names: tuple[str, ...], seen: frozenset[Key] = frozenset()
    ) -> tuple[Key | None, str]:
        """The definition behind a module's attribute; it may lead through other modules."""
        if self._is_left_out(module):
            while names and self._is_module(f"{module}.{names[0]}"):
                module, names = f"{module}.{names[0]}", names[1:]
            return None, f"outside the fingerprint {dotted(names)}"
        if not names:
            return (module, WHOLE), ""
        (first, *rest), parsed = names, self._module(module)
        if first in parsed.statements:
            return (module, first), dotted(rest)
        if first in parsed.imports and (module, first) not in seen:
            return self._imported(module, parsed.imports[first], tuple(rest), seen | {(module, first)})
        if self._is_module(f"{module}.{first}"):
            return self._attribute(f"{module}.{first}", tuple(rest), seen)
        if "__getattr__" in parsed.statements:
            return (module, "__getattr__"), dotted(names)
        return (module, ON_IMPORT) if self._runs(module) else None, f"attribute {dotted(names)}"

    def _is_module(self, name: str) -> bool:
        return name in self.sources or name in self._packages

    def _is_left_out(self, module: str) -> bool:
        return any(module == name or module.startswith(f"{name}.") for name in self.left_out)


def _plain(entries: Iterable[str]) -> list[str]:
    return [entry for entry in entries if not entry.startswith("!")]


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def present() -> Code:
    """The package as this process found it first, because later changes on disk do not change the running code."""
    return Code.of(PACKAGE)
