// Looks words up in the index of the site (clcore/book/site/search.py), for the page of the search
// and for the ledger. The index comes as a script, which works from a disk, too.
(() => {
  "use strict";
  const own = document.currentScript.src;

  // "Theorem 3", "thm. 3", "thm3" and "(theorem 3)" are one word; so are "Eqs. 5" and "equation 5".
  const KINDS = {
    theorem: "theorem", thm: "theorem", lemma: "lemma", lem: "lemma", corollary: "corollary", cor: "corollary",
    definition: "definition", def: "definition", remark: "remark", rem: "remark", table: "table", tab: "table",
    figure: "figure", fig: "figure", equation: "equation", eq: "equation", section: "section", sec: "section",
    chapter: "chapter", exercise: "exercise", assumption: "assumption", proposition: "proposition",
    appendix: "appendix", app: "appendix",
  };
  const NAMED = new RegExp(`\\b(${Object.keys(KINDS).join("|")})s?\\.?\\s*(\\d+(?:\\.\\d+)*)\\b`, "g");
  const PLACED = new RegExp(`^(?:${Object.values(KINDS).join("|")})\\d+(?:\\.\\d+)*$`); // not l2, w2

  // Words of a text, each between blanks; p₀ is p0, and ℓ2 is l2.
  function canonical(text) {
    const lower = text.normalize("NFKC").toLowerCase().replace(/(\b(ca|wo))?n[’']t\b|[’']s\b/g, "").replace(/[-‐‑–]/g, " ")
      .replace(/\bdata sets?\b/g, "dataset");
    const named = lower.replace(NAMED, (_, kind, number) => ` ${KINDS[kind]}${number} `);
    return ` ${(named.match(/[\p{L}\p{N}]+(?:\.\p{N}+)*/gu) ?? []).map(stem).join(" ")} `;
  }

  // A letter that stands alone has its name: β is beta.
  const LETTERS = {
    α: "alpha", β: "beta", γ: "gamma", δ: "delta", ε: "epsilon", ζ: "zeta", η: "eta", θ: "theta", κ: "kappa",
    λ: "lambda", μ: "mu", ν: "nu", ξ: "xi", π: "pi", ρ: "rho", σ: "sigma", τ: "tau", φ: "phi", χ: "chi",
    ψ: "psi", ω: "omega",
  };

  // British and American, one and many.
  function stem(word) {
    if (word.length === 1) return LETTERS[word] ?? word;
    if (word.length < 5 || /\d/.test(word)) return word;
    return word
      .replace(/iz(e|ed|es|ing|ation|ations)$/, "is$1")
      .replace(/^licens/, "licenc")
      .replace(/ies$/, "y")
      .replace(/(ss|ch|sh|x)es$/, "$1")
      .replace(/([^sui])s$/, "$1");
  }

  // What a query asks for: words, and what stands in quotes as it stands.
  function asked(query) {
    const phrases = [];
    const rest = query.replace(/["“”„]([^"“”„]*)["“”„]/g, (_, phrase) => {
      phrases.push(canonical(phrase));
      return " ";
    });
    const defines = DEFINES.exec(rest);
    const plain = (defines?.[1] ?? rest).replace(/["“”„]/g, " ");
    const words = canonical(plain).trim().split(" ").filter(Boolean);
    const whole = canonical(query);
    const few = words.filter((word) => !SMALL.has(word));
    const hard = few.filter((word) => !SOFT.has(word));
    const soft = hard.length ? few.filter((word) => SOFT.has(word)) : [];
    const sought = hard.length ? hard : few.length ? few : words;
    return { phrases: phrases.filter((p) => p.trim()), words: sought, soft, whole, defines: Boolean(defines) };
  }
  // "What does depends mean" asks for a word of the glossary; mean is no average there.
  const DEFINES = /^\s*what (?:do|does) (?:the |an? )?(.+?) mean\W*$/i;
  const SMALL = new Set(
    "a all always an and any are as at be by cannot did do does ever for from get give has have how i if in into is it its just not of on or our say said says that the their there this to true was we were what when where which who why with would can my paper"
      .split(" "),
  );
  // Of "do hard negatives help" nothing need have the last word; what has it comes a little sooner.
  const SOFT = new Set("about better covered good happen help helpful important matter more need needed result still sure than treated use used useful work you".split(" "));

  // A query that names one paper asks for that paper; its name is no word to be found.
  function ofPaper(wanted) {
    const named = new Map();
    for (const [key, names] of Object.entries(window.clPapers)) {
      const met = names.map(canonical).filter((name) => wanted.whole.includes(name));
      if (met.length) named.set(key, met.sort((a, b) => b.length - a.length)[0]);
    }
    if (named.size !== 1) return wanted;
    const [[paper, name]] = named;
    const apart = name.trim().split(" ");
    const words = wanted.words.filter((word) => !apart.includes(word));
    return { ...wanted, words: words.length || wanted.phrases.length ? words : wanted.words, paper };
  }

  const WEIGHTS = { place: 14, title: 10, where: 7, also: 6, says: 4, paper: 4, page: 4, text: 1.5 };
  // Where a claim is printed is asked for by a place; what only mentions that place is not meant.
  const OF_PLACES = { claim: ["place", "where"], page: ["title", "page", "text"] };

  // Plans for teachers and pages of the library have many words of claims, and answer few questions.
  const APART = /^book\/(teaching|api\/)/;

  function prepare(entry) {
    const fields = {};
    for (const name of Object.keys(WEIGHTS)) fields[name] = canonical(entry[name] ?? "");
    if (entry.kind === "section") [fields.page, fields.place] = [fields.place, canonical("")];
    else fields.page = canonical("");
    fields.spot = canonical((entry.place ?? "").split(", ").slice(1).join(", ")); // without the paper
    return { entry, fields };
  }

  // Whether an entry is a claim of the paper that a query names, at the places that it names.
  function meant({ entry, fields }, { paper, words }) {
    const placed = words.filter((word) => PLACED.test(word));
    if (!paper || entry.kind !== "claim" || !placed.length) return false;
    const has = (word) => OF_PLACES.claim.some((name) => fields[name].includes(` ${word} `));
    return entry.id.startsWith(`${paper}/`) && placed.every(has);
  }

  // The most that a field with this word gives; names: the fields that count.
  function most(fields, word, names) {
    let best = 0;
    for (const name of names) {
      if (fields[name].includes(` ${word} `)) best = Math.max(best, WEIGHTS[name]);
      else if (word.length > 2 && !/\d/.test(word) && fields[name].includes(` ${word}`)) {
        best = Math.max(best, 0.6 * WEIGHTS[name]);
      }
    }
    return best;
  }

  // lacking: how many words an entry need not have; never a place or what is in quotes.
  // worth: how much each word counts.
  function weigh(one, wanted, lacking, worth) {
    const { entry, fields } = one;
    const { phrases, words, soft, whole, paper } = wanted;
    if (paper && entry.kind === "claim" && !entry.id.startsWith(`${paper}/`)) return 0;
    let sum = 0;
    let left = lacking && meant(one, wanted) ? words.length : lacking;
    let [met, all] = [0, 0];
    for (const [at, word] of words.entries()) {
      const places = PLACED.test(word) ? (OF_PLACES[entry.kind] ?? OF_PLACES.page) : Object.keys(WEIGHTS);
      const best = most(fields, word, places);
      if (!best && (PLACED.test(word) || !left--)) return 0;
      sum += worth[at] * best + (fields.spot === ` ${word} ` ? 10 : 0); // Theorem 3, not a remark on it
      met += best ? worth[at] : 0;
      all += worth[at];
    }
    for (const phrase of phrases) {
      const single = PLACED.test(phrase.trim());
      const places = single ? (OF_PLACES[entry.kind] ?? OF_PLACES.page) : Object.keys(WEIGHTS);
      const held = places.filter((name) => fields[name].includes(phrase));
      if (!held.length) return 0;
      sum += Math.max(...held.map((name) => WEIGHTS[name])) + (fields.spot === phrase ? 10 : 0);
    }
    if (!sum) return 0;
    if (fields.title === whole) sum += 30;
    for (const name of ["place", "title", "also", "says"]) {
      if (fields[name].includes(whole)) sum += WEIGHTS[name];
    }
    if (all) sum *= (met / all) ** 2;
    for (const word of soft) sum += most(fields, word, Object.keys(WEIGHTS));
    if (lacking && meant(one, wanted)) sum += words.some((word) => fields.spot === ` ${word} `) ? 60 : 30;
    if (paper) sum *= entry.kind === "claim" ? 2 : 0.5;
    if (wanted.defines && entry.kind === "term") sum *= 4;
    if (APART.test(entry.address)) sum *= 0.4;
    return sum * ({ claim: 1.15, term: 1.05, page: 1.1 }[entry.kind] ?? 1);
  }

  let waiting;
  // The index, asked for with the first word that is looked for.
  function load() {
    waiting ??= new Promise((go, stop) => {
      const script = document.createElement("script");
      script.src = new URL("search-index.js", own).href;
      script.onload = () => go(window.clIndex.map(prepare));
      script.onerror = () => stop(new Error("the index of the search could not be loaded"));
      document.head.append(script);
    });
    return waiting;
  }

  // A word that few entries have says more than one that most have: 1 at the rarest.
  function worths(all, words) {
    const has = (fields, word) => Object.keys(WEIGHTS).some((name) => fields[name].includes(` ${word}`));
    const most = Math.log(1 + all.length);
    return words.map((word) => {
      const number = all.filter(({ fields }) => has(fields, word)).length;
      return number ? Math.log(1 + all.length / number) / most : 0;
    });
  }

  function best(all, wanted, lacking, worth = wanted.words.map(() => 1)) {
    if (!wanted.words.length && !wanted.phrases.length) return [];
    return all
      .map((one, at) => ({ entry: one.entry, weight: weigh(one, wanted, lacking, worth), at }))
      .filter(({ weight }) => weight > 0)
      .sort((a, b) => b.weight - a.weight || a.at - b.at)
      .map(({ entry }) => entry);
  }

  // Entries of the index that have all that a query asks for, the best first.
  async function find(query) {
    const all = await load();
    return best(all, ofPaper(asked(query)), 0);
  }

  // Where few have all words, as of a whole question, also those that have most of them: the best
  // first, and how many have all. At most half of the words may be missing, or more if nothing is found
  // otherwise; a word that is nowhere may be missing, too. kind: of the entries, null for all;
  // of one kind nothing is found where most words are nowhere.
  const FEW = 5;
  async function near(query, kind = null) {
    const all = (await load()).filter(({ entry }) => !kind || entry.kind === kind);
    const { wanted, note } = spelt(all, present(all, ofPaper(asked(query))));
    const whole = best(all, wanted, 0);
    if (whole.length >= FEW || wanted.words.length < 2) return { entries: whole, whole: whole.length, note };
    const worth = worths(all, wanted.words);
    const known = wanted.words.map((_, at) => at).filter((at) => worth[at]);
    if (kind && known.length < wanted.words.length / 2) return { entries: whole, whole: whole.length, note };
    const asks = { ...wanted, words: known.map((at) => wanted.words[at]) };
    const most = known.length < wanted.words.length ? 0 : 1;
    let entries = whole;
    const few = (lacking) => (lacking <= known.length / 2 ? entries.length < FEW : !entries.length);
    for (let lacking = most; lacking < known.length && few(lacking); lacking++) {
      entries = best(all, asks, lacking, known.map((at) => worth[at]));
    }
    return { entries, whole: whole.length, note };
  }

  // Without the places that the named paper has no claim at: these cannot be found.
  function present(all, wanted) {
    const at = (word) => all.some((one) => meant(one, { ...wanted, words: [word] }));
    const absent = wanted.paper ? wanted.words.filter((word) => PLACED.test(word) && !at(word)) : [];
    const words = wanted.words.filter((word) => !absent.includes(word));
    const said = absent.map((word) => word[0].toUpperCase() + word.slice(1).replace(/\d/, " $&"));
    const first = all.find(({ entry }) => entry.kind === "claim" && entry.id.startsWith(`${wanted.paper}/`));
    const cite = first?.entry.place.split(", ")[0];
    return { wanted: { ...wanted, words }, note: said.length ? `${cite} has no ${said.join(" or ")} in the ledger. ` : "" };
  }

  // A word that is nowhere is read as one that is a slip away, of several the most frequent.
  function spelt(all, { wanted, note }) {
    const worth = worths(all, wanted.words);
    let { whole } = wanted;
    const words = wanted.words.map((word, at) => {
      if (worth[at] || word.length < 5 || /\d/.test(word)) return word;
      const near = [...counted(all)].filter(([other]) => other.length > 3 && slip(word, other));
      const [best] = near.sort((a, b) => b[1] - a[1])[0] ?? [word];
      if (best !== word) note += `Nothing has ${word}; searched for ${best}. `;
      whole = whole.replace(` ${word} `, ` ${best} `);
      return best;
    });
    return { wanted: { ...wanted, words, whole }, note };
  }

  // Each word, and how many entries have it.
  function counted(all) {
    const counts = new Map();
    for (const { fields } of all) {
      for (const word of new Set(Object.values(fields).join("").split(" "))) counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    return counts;
  }

  // Whether two words differ by a letter more or less, or by two that are exchanged; or long ones by a
  // letter: mining is not mixing.
  function slip(one, two) {
    if (Math.abs(one.length - two.length) > 1) return false;
    let at = 0;
    while (at < one.length && one[at] === two[at]) at++;
    const [a, b] = [one.slice(at), two.slice(at)];
    if (a.slice(1) === b || a === b.slice(1)) return true;
    const exchanged = a[0] === b[1] && a[1] === b[0] && a.slice(2) === b.slice(2);
    return exchanged || (one.length > 6 && a.slice(1) === b.slice(1));
  }

  window.clFind = find;
  window.clFindNear = near;
})();
