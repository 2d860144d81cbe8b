// Python for the programs on the pages, in a worker of its own: the page stays alive, and a long run can
// be ended. python/ has what it is made of; python/files.json the size and the hash of every file.
const folder = new URL("python/", import.meta.url);
const LIMIT = 100_000; // characters that a program may print

let files = null;
let python = null;
let symbols = false;
let printed = 0;
const modules = new Set();

const post = (kind, more = {}) => self.postMessage({ kind, ...more });

async function digest(bytes) {
  const found = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...found].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A file of python/, checked. count: told of the bytes as they come. */
async function checked(name, count) {
  const answer = await fetch(new URL(name, folder));
  if (!answer.ok) throw new Error(`${name} could not be loaded (status ${answer.status})`);
  const bytes = new Uint8Array(files.files[name].bytes);
  let at = 0;
  for (const reader = answer.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    if (at + value.length > bytes.length) throw new Error(`${name} is longer than it should be`);
    bytes.set(value, at);
    at += value.length;
    count(value.length);
  }
  if (at < bytes.length) throw new Error(`${name} was cut short: ${at} of ${bytes.length} bytes`);
  // Browsers have this for pages that come by https or from the reader's own machine alone.
  if (self.crypto?.subtle && (await digest(bytes)) !== files.files[name].sha256)
    throw new Error(`${name} is not the file that this site was built with`);
  return bytes;
}

async function load(names) {
  const total = names.reduce((sum, name) => sum + files.files[name].bytes, 0);
  let have = 0;
  return Promise.all(
    names.map((name) => checked(name, (more) => post("loading", { have: (have += more), total })))
  );
}

const decoder = new TextDecoder();

/** What a program prints, passed on. Past the limit writing fails, and with it the program. */
function write(bytes) {
  const text = decoder.decode(bytes, { stream: true });
  printed += text.length;
  if (printed > LIMIT) throw new Error("too much output");
  post("text", { text });
  return bytes.length;
}

async function start(withSymbols) {
  files ??= await (await fetch(new URL("files.json", folder))).json();
  const wanted = python ? [] : ["pyodide.asm.wasm", "python_stdlib.zip"];
  if (withSymbols && !symbols) wanted.push("symbols.zip");
  if (!wanted.length) return;
  const kept = Object.fromEntries((await load(wanted)).map((bytes, at) => [wanted[at], bytes]));
  post("starting");
  if (!python) {
    const ask = self.fetch;
    self.fetch = (what, ...more) => {
      // Pyodide asks for what has come already.
      const bytes = kept[String(what.url ?? what).split("/").pop()];
      if (!bytes) return ask(what, ...more);
      return Promise.resolve(new Response(bytes, { headers: { "Content-Type": "application/wasm" } }));
    };
    const { loadPyodide } = await import(new URL("pyodide.mjs", folder));
    const lockFileContents = { info: files.info, packages: {} };
    python = await loadPyodide({ indexURL: folder.href, lockFileContents });
    self.fetch = ask;
    python.setStdout({ write });
    python.setStderr({ write });
  }
  if (kept["symbols.zip"]) {
    python.FS.writeFile("/lib/symbols.zip", kept["symbols.zip"]);
    python.runPython("import sys; sys.path.append('/lib/symbols.zip')");
    symbols = true;
  }
}

/** An exception as Python prints it, from the program's own first line on. */
function told(raised, name) {
  const lines = String(raised.message ?? raised).trimEnd().split("\n");
  const own = lines.findIndex((line) => line.includes(`File "${name}"`));
  if (own < 1) return lines.at(-1);
  return ["Traceback (most recent call last):", ...lines.slice(own)].join("\n");
}

/** A module of the site that a program imports. */
async function provide(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} could not be loaded (status ${answer.status})`);
  const name = address.split("/").pop();
  python.FS.mkdirTree("/modules");
  python.FS.writeFile(`/modules/${name}`, await answer.text());
  python.runPython("import sys; '/modules' in sys.path or sys.path.append('/modules')");
  modules.add(address);
}

async function run({ code, name, module }) {
  await start(Boolean(module) || /\b(sympy|mpmath)\b/.test(code));
  if (module && !modules.has(module)) await provide(module);
  post("running");
  const scope = python.globals.get("dict")();
  scope.set("__name__", "__main__");
  printed = 0;
  let error = "";
  const begun = performance.now();
  try {
    python.runPython(code, { globals: scope, filename: name });
    python.runPython("import sys; sys.stdout.flush()");
  } catch (raised) {
    const many = LIMIT.toLocaleString("en");
    error = printed > LIMIT ? `Ended: it printed more than ${many} characters.` : told(raised, name);
  }
  scope.destroy();
  post("done", { error, seconds: (performance.now() - begun) / 1000 });
}

let last = Promise.resolve(); // one run after the other
self.onmessage = (event) => {
  last = last.then(() => run(event.data)).catch((error) => post("failed", { error: error.message }));
};
