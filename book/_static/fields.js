// Fields below exercises that ask for a number: what a reader types is checked here, without a
// server. The page has the right numbers hidden, as clcore/book/site/fields says; the usual
// mistakes come from the judges of the notebooks.
(() => {
  if (!globalThis.crypto?.subtle) return; // as on a page by http: it says where else to check
  document.documentElement.classList.add("cl-fields"); // shows the fields: fields.css

  const TAG = 8;
  const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  const OPERATIONS = {
    times: (x, by) => x * by,
    over: (x, by) => x / by,
    into: (x, by) => by / x,
    from: (x, by) => by - x,
    root: (x) => Math.sqrt(x),
    square: (x) => x * x,
  };

  /** What was typed: 5.55, -1e-3, 1/4; NaN for what is no number. */
  function read(text) {
    const parts = text.replaceAll("\u2212", "-").split("/").map((part) => part.trim());
    if (parts.length > 2 || !parts.every((part) => NUMBER.test(part))) return NaN;
    return parts.map(Number).reduce((over, under) => over / under);
  }

  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

  /** How far a number is from right, as a share; Infinity where it is not near enough to tell. */
  async function gap({ exercise, sealed }, x) {
    const bucket = new TextEncoder().encode(`${exercise} ${x.toExponential(1)}`);
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bucket));
    const tag = hex(digest.subarray(0, TAG));
    const found = sealed.split(" ").find((one) => one.startsWith(tag));
    if (!found) return Infinity;
    const bytes = found.slice(2 * TAG).match(/../g).map((pair, at) => parseInt(pair, 16) ^ digest[TAG + at]);
    return Math.abs(x / new DataView(Uint8Array.from(bytes).buffer).getFloat64(0) - 1);
  }

  const percent = (share) => Number((100 * share).toPrecision(3));

  /** Whether a number is right, and what to say of it. */
  async function judged(asked, x) {
    const within = Number(asked.within);
    const own = await gap(asked, x);
    if (own <= within) return [true, "right"];
    const over = percent(own) === percent(within) ? "just over " : "";
    const off = `off by ${over}${percent(own)} per cent (allowed: ${percent(within)})`;
    if (within && own <= Number(asked.near)) return [false, `near, but ${off}`];
    for (const [words, operation, number] of JSON.parse(asked.usual))
      if ((await gap(asked, OPERATIONS[operation](x, number))) <= within) return [false, words];
    if (within && own < Infinity) return [false, off];
    return [false, "not right; the hint above may help"];
  }

  async function check(form) {
    const input = form.querySelector("input");
    const status = form.querySelector("[role=status]");
    const typed = input.value;
    const x = read(typed);
    const [right, words] = Number.isFinite(x)
      ? await judged(form.dataset, x)
      : [false, "expected a number with a decimal point, such as 0.25, 1/4 or 2.5e-1"];
    if (input.value !== typed) return; // typed on meanwhile
    input.setAttribute("aria-invalid", String(!right));
    status.dataset.kind = right ? "good" : "bad";
    status.textContent = `${form.dataset.title}: ${words}.`;
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.matches(".cl-field")) return;
    event.preventDefault();
    check(event.target);
  });

  // What is said belongs to the number it was said of.
  document.addEventListener("input", (event) => {
    const form = event.target.closest(".cl-field");
    if (!form) return;
    event.target.removeAttribute("aria-invalid");
    form.querySelector("[role=status]").textContent = "";
  });
})();
