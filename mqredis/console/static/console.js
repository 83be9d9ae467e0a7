// Live updates: while the page is visible, each event of the server lets htmx fetch the part with id "live" again.
"use strict";

(() => {
  const root = document.querySelector("[data-events]");
  const down = document.getElementById("down");
  let source = null;

  const open = () => {
    if (source) return;
    source = new EventSource(root.dataset.events);
    source.addEventListener("tick", () => {
      down.hidden = true;
      const live = document.getElementById("live");
      const selection = document.getSelection();
      // A text that is being selected would lose its selection, and a button would move away from under the pointer.
      const selecting = !selection.isCollapsed && live.contains(selection.anchorNode);
      if (!selecting && !live.querySelector(".buttons:hover")) htmx.trigger(live, "tick");
    });
    source.addEventListener("down", () => { down.hidden = false; });
    source.addEventListener("error", () => { down.hidden = false; });
  };
  const close = () => {
    if (source) source.close();
    source = null;
  };

  // A table that is wider than the page keeps its place in an update.
  const places = new Map();
  document.addEventListener("htmx:beforeSwap", () => {
    for (const table of document.querySelectorAll("#live .table[id]")) places.set(table.id, table.scrollLeft);
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const table of document.querySelectorAll("#live .table[id]")) table.scrollLeft = places.get(table.id) || 0;
  });

  if (root) {
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    window.addEventListener("pagehide", close);
    if (!document.hidden) open();
  }

  // A form is sent once; the broker would refuse the second time, too.
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (event.target.method === "post" && button) setTimeout(() => { button.disabled = true; });
  });

  // A search asks for its next part by itself, until the page is full, everything was searched, or somebody stops it.
  document.documentElement.classList.add("scripts");
  const stop = (event) => {
    const more = event.target.closest("#more");
    if (!more) return;
    more.classList.add("stopped");
    htmx.trigger(more, "htmx:abort");
  };
  document.addEventListener("click", (event) => { if (event.target.closest("[data-stop]")) stop(event); });
  document.addEventListener("htmx:responseError", stop);
  document.addEventListener("htmx:sendError", stop);

  // An action on many messages goes on until it has finished, or somebody leaves the page.
  const unfinished = document.querySelector("form[data-continue]");
  if (unfinished) unfinished.submit();

  // "/" leads to the search field.
  document.addEventListener("keydown", (event) => {
    const fields = (part) => document.querySelector(`${part} [role=search] input:not([type=hidden])`);
    const field = fields("main") || fields(".side");
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key === "/" && field && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      field.focus();
    }
  });
})();
