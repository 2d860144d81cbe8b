"""Programs run by the site's own worker, without its buttons."""

from collections.abc import Sequence

from browsing import Tab

MINUTES = 10 * 60 * 1000
"""Far more than it takes: Python starts in some seconds, on a busy machine in a minute."""

_RUN = """
([programs, module]) => new Promise((go, stop) => {
  const worker = new Worker('../_static/run-worker.js', {type: 'module'});
  const found = [];
  let text = '';
  worker.onerror = (event) => stop(event.message);
  worker.onmessage = ({data}) => {
    if (data.kind === 'text') text += data.text;
    if (data.kind === 'failed') stop(data.error);
    if (data.kind !== 'done') return;
    found.push([text, data.error]);
    text = '';
    if (found.length === programs.length) go(found);
  };
  const more = module ? {module: new URL(module, location.href).href} : {};
  for (const [name, code] of programs) worker.postMessage({name, code, ...more});
})
"""


def run(tab: Tab, programs: Sequence[tuple[str, str]], module: str = "") -> list[list[str]]:
    """[what it printed, its error] of each (name, source), one after the other in one worker, from
    the page that is open. module: address of a further module that they import."""
    tab.page.set_default_timeout(MINUTES)
    return tab.page.evaluate(_RUN, [list(programs), module])
