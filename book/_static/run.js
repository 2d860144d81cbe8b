// "Run it here": programs on the pages, changed and run by the reader, in the reader's own browser.
(() => {
  const START = ".cl-run-start";
  document.documentElement.classList.add("cl-runs"); // shows the buttons: run.css

  let worker = null;
  let running = null; // the program whose run has not ended
  const programs = new WeakMap();

  function made(tag, properties, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  const seconds = (since) => `${((performance.now() - since) / 1000).toFixed(1)} s`;
  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

  /** The first line that is not as recorded, or 0. */
  function differs(printed, recorded) {
    const [ours, theirs] = [printed, recorded].map((text) => text.trimEnd().split("\n"));
    const length = Math.max(ours.length, theirs.length);
    for (let at = 0; at < length; at++) if (ours[at] !== theirs[at]) return at + 1;
    return 0;
  }

  class Program {
    constructor(box) {
      this.box = box;
      this.name = box.dataset.name;
      this.source = box.querySelector(".cl-run-source");
      this.original = this.source.value;
      this.recorded = box.querySelector(".cl-run-recorded").textContent;
      this.again = made("button", { type: "button", textContent: "Run", className: "cl-run-again" });
      this.stop = made("button", { type: "button", textContent: "Stop", disabled: true });
      this.reset = made("button", { type: "button", textContent: "Reset", disabled: true });
      this.status = made("p", { className: "cl-run-status" });
      this.status.setAttribute("role", "status");
      this.progress = made("p", { className: "cl-run-progress" });
      this.output = made("pre", { className: "cl-run-output", tabIndex: 0 });
      this.output.setAttribute("role", "region");
      this.output.setAttribute("aria-label", `What ${this.name} prints here`);
      this.source.hidden = false;
      this.source.rows = Math.min(this.original.trimEnd().split("\n").length + 1, 40);
      const bar = made("div", { className: "cl-run-bar" }, this.again, this.stop, this.reset);
      box.querySelector(START).remove();
      box.querySelector(".cl-run-shown").hidden = true;
      this.source.after(bar, this.status, this.progress, this.output);
      this.again.onclick = () => this.run();
      this.stop.onclick = () => this.end("Stopped.");
      this.reset.onclick = () => {
        this.source.value = this.original;
        this.reset.disabled = true;
        this.source.focus();
      };
      this.source.oninput = () => (this.reset.disabled = this.source.value === this.original);
      this.source.onkeydown = (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.run();
      };
    }

    say(words, kind = "") {
      this.status.textContent = words;
      this.status.dataset.kind = kind;
    }

    run() {
      if (running) {
        if (running !== this) this.say("Another program on this page is running; stop it first.", "bad");
        return;
      }
      if (location.protocol === "file:") {
        this.say("A browser runs this from a server only: open the site by its address, or with `make serve`.", "bad");
        return;
      }
      if (!window.Worker || !window.WebAssembly) {
        this.say("This needs web workers and WebAssembly, which this browser lacks. The file runs in any Python.", "bad");
        return;
      }
      running = this;
      this.begun = performance.now();
      this.output.textContent = "";
      this.again.disabled = true;
      this.stop.disabled = false;
      this.say(worker ? "Running" : "Loading Python");
      if (!worker) {
        worker = new Worker(new URL("run-worker.js", new URL(this.box.dataset.static, location.href)), { type: "module" });
        worker.onmessage = ({ data }) => running?.heard(data);
        worker.onerror = (event) => running?.end(event.message || "Python could not be started in this browser.", "bad");
      }
      const module = this.box.dataset.module && new URL(this.box.dataset.module, location.href).href;
      worker.postMessage({ code: this.source.value, name: this.name, module });
    }

    heard(data) {
      if (data.kind === "loading")
        this.progress.textContent = `${megabytes(data.have)} of ${megabytes(data.total)} MB, ${seconds(this.begun)}`;
      if (data.kind === "starting") this.say("Starting Python");
      if (data.kind === "running") {
        this.progress.textContent = "";
        this.say("Running");
      }
      if (data.kind === "text") this.output.append(data.text);
      if (data.kind === "failed") this.end(`Python could not be loaded: ${data.error}. Reload the page to try again.`, "bad");
      if (data.kind === "done") this.done(data);
    }

    done({ error, seconds: took }) {
      const printed = this.output.textContent;
      const time = `in ${took.toFixed(took < 1 ? 2 : 1)} s`;
      if (error) {
        this.output.append(error);
        this.rest(`It stopped with an error ${time}.`, "bad");
        return;
      }
      const line = differs(printed, this.recorded);
      const changed = this.source.value !== this.original ? " of your version" : "";
      if (line) this.rest(`Ran ${time}: line ${line}${changed} is not as recorded.`, "other");
      else this.rest(`Ran ${time}: as recorded.`, "good");
    }

    /** The run is over; the worker goes on to the next. */
    rest(words, kind) {
      running = null;
      this.again.disabled = false;
      this.stop.disabled = true;
      this.progress.textContent = "";
      this.say(words, kind);
    }

    /** The worker is ended with the run; the next run starts another. */
    end(words, kind = "") {
      worker?.terminate();
      worker = null;
      this.rest(words, kind);
    }
  }

  // A link to a program opens the fold that it is in.
  const aim = () => {
    const fold = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (fold?.tagName === "DETAILS") fold.open = true;
  };
  aim();
  addEventListener("hashchange", aim);

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.(START);
    if (!button) return;
    const box = button.closest(".cl-run");
    if (!programs.has(box)) programs.set(box, new Program(box));
    programs.get(box).source.focus({ preventScroll: true });
    programs.get(box).run();
  });
})();
