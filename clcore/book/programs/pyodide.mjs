// symbols.zip: packages compiled by the Python that will load them.
// node pyodide.mjs FOLDER PACKAGES NAME...: FOLDER has Pyodide and takes the archive.
import { pathToFileURL } from "node:url";

const [folder, packages, ...names] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: folder });
python.mountNodeFS("/made", folder);
python.mountNodeFS("/packages", packages);
python.globals.set("names", python.toPy(names));
python.runPython(`
import warnings, zipfile
from importlib._bootstrap_external import _code_to_hash_pyc
from importlib.util import source_hash
from pathlib import Path

warnings.simplefilter("ignore", SyntaxWarning)
with zipfile.ZipFile("/made/symbols.zip", "w") as archive:
    for name in names:
        for file in sorted(Path("/packages", name).rglob("*.py")):
            inside = file.relative_to("/packages")
            if {"tests", "benchmarks"} & {*inside.parts}:
                continue
            source = file.read_bytes()
            code = compile(source, str(inside), "exec", dont_inherit=True)
            entry = zipfile.ZipInfo(str(inside.with_suffix(".pyc")))  # dated 1980: the same bytes
            content = _code_to_hash_pyc(code, source_hash(source), False)
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
`);
