// Scripts of the pages: live regions, charts and local times.
// Every page works without this file; nothing here builds HTML from data.
"use strict";

(() => {
  const ACTIVE_MS = 2000; // while something can still change
  const LONGEST_MS = 30000; // between tries when the server does not answer
  const MAP_WIDTH = 380; // of one heat map with its labels, about
  const chartOptions = { ast: true, actions: false, defaultStyle: false, renderer: "svg" };

  // ---- times --------------------------------------------------------------------------------

  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
  const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  function ago(date) {
    const seconds = (date - Date.now()) / 1000;
    if (Math.abs(seconds) < 5) return "just now";
    const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? units.at(-1);
    return relative.format(Math.round(seconds / size), unit);
  }

  function showTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const date = new Date(time.dateTime);
      if (Number.isNaN(date.getTime())) continue;
      time.title = absolute.format(date);
      if (time.dataset.show === "ago") time.textContent = ago(date);
      else if (time.dataset.show === "clock") time.textContent = date.toLocaleTimeString();
    }
  }

  // ---- live regions -------------------------------------------------------------------------

  // The page itself is fetched again; an element with `data-live` is replaced by the one of the
  // same id when the server's text for it changed. The body's `data-poll` says how often to ask
  // (seconds; absent when nothing can change any more).
  const known = new Map();
  let timer = 0;
  let failures = 0;

  function remember(page) {
    for (const region of page.querySelectorAll("[data-live]")) known.set(region.id, region.outerHTML);
  }

  function focusPath(region) {
    const focused = document.activeElement;
    if (!focused || !region.contains(focused)) return null;
    if (focused.id) return `#${CSS.escape(focused.id)}`;
    if (focused.matches("a[href]")) return `a[href="${CSS.escape(focused.getAttribute("href"))}"]`;
    if (focused.matches("input[type=checkbox]")) return `input[value="${CSS.escape(focused.value)}"]`;
    const address = focused.matches("button") && focused.closest("form[action]")?.getAttribute("action");
    return address ? `form[action="${CSS.escape(address)}"] button` : null;
  }

  // A chart whose source is the same shows the same: its drawing moves over.
  function keepCharts(old, fresh) {
    for (const chart of fresh.querySelectorAll(".chart[data-source]")) {
      const before = old.querySelector(`#${CSS.escape(chart.id)}`);
      if (before?.dataset.source === chart.dataset.source) chart.replaceWith(before);
    }
  }

  function keepChoices(old, fresh) {
    const chosen = new Set([...old.querySelectorAll("input[type=checkbox]:checked")].map((box) => box.value));
    for (const box of fresh.querySelectorAll("input[type=checkbox]")) box.checked = chosen.has(box.value);
  }

  // Tables that have been computed meanwhile are sections that this page does not have yet.
  function isComputed(page) {
    return document.getElementById("computing") && !page.getElementById("computing");
  }

  // Folds by their names, and those without one by their places.
  function foldsOf(box) {
    let nameless = 0;
    const nameOf = (one) => one.id || one.getAttribute("aria-labelledby") || nameless++;
    return [...box.querySelectorAll("details")].map((one) => [nameOf(one), one]);
  }

  function take(page) {
    if (isComputed(page)) {
      location.reload();
      return;
    }
    for (const fresh of page.querySelectorAll("[data-live]")) {
      if (known.get(fresh.id) === fresh.outerHTML) continue;
      known.set(fresh.id, fresh.outerHTML);
      const old = document.getElementById(fresh.id);
      if (!old) continue;
      const focus = focusPath(old);
      const scrolled = [...old.querySelectorAll(".scroll, .timeline")].map((box) => [box.scrollLeft, box.scrollTop]);
      const opened = new Map(foldsOf(old).map(([name, details]) => [name, details.open]));
      const adopted = document.adoptNode(fresh);
      for (const [name, details] of foldsOf(adopted)) details.open = opened.get(name) ?? details.open;
      keepCharts(old, adopted);
      keepChoices(old, adopted);
      old.replaceWith(adopted);
      begin(adopted);
      adopted.querySelectorAll(".scroll, .timeline").forEach((box, index) => {
        if (scrolled[index]) [box.scrollLeft, box.scrollTop] = scrolled[index];
      });
      if (focus) adopted.querySelector(focus)?.focus({ preventScroll: true });
    }
    document.title = page.title;
    document.body.dataset.poll = page.body.dataset.poll ?? "";
    document.body.dataset.stream = page.body.dataset.stream ?? "";
  }

  // A click is lost if its element is replaced before the mouse button is released.
  let released = Promise.resolve();

  /** Fold the menus of the navigation, but for one with the place. */
  function closeMenus(place) {
    for (const menu of document.querySelectorAll(".top details[open]")) {
      if (place === null || !menu.contains(place)) menu.open = false;
    }
  }

  function holdStill() {
    const over = new AbortController();
    released = new Promise((resolve) => {
      const look = (event) => {
        if (event.buttons) return;
        over.abort();
        window.setTimeout(resolve); // when the click has been heard
      };
      for (const name of ["pointerup", "pointercancel", "pointermove"]) {
        document.addEventListener(name, look, { capture: true, signal: over.signal });
      }
    });
  }

  function connection(kind) {
    const box = document.getElementById("connection");
    for (const message of box.children) message.hidden = message.dataset.kind !== kind;
    box.hidden = !kind;
  }

  let questions = 0;
  let shown = ""; // the tag of the page as it was taken last

  async function refresh() {
    questions += 1;
    const mine = questions;
    const headers = { Accept: "text/html", ...(shown && { "If-None-Match": shown }) };
    const response = await fetch(location.href, { headers, redirect: "manual" });
    if (response.status === 304) {
      taken();
      return;
    }
    if (response.type === "opaqueredirect" || response.status === 401) {
      connection("signed-out");
      document.body.dataset.poll = "";
      document.body.dataset.stream = "";
      return;
    }
    if (!response.ok) throw new Error(`status ${response.status}`);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    await released;
    if (questions !== mine) return; // what was asked since then is newer, and on its way
    take(page);
    shown = response.headers.get("ETag") ?? "";
    taken();
  }

  function taken() {
    connection(null);
    document.dispatchEvent(new Event("adaptlab:refreshed"));
  }

  async function tick() {
    window.clearTimeout(timer);
    told = false;
    if (document.hidden) return;
    try {
      await refresh();
      failures = 0;
    } catch {
      failures += 1;
      connection("lost");
    }
    schedule();
  }

  function schedule() {
    window.clearTimeout(timer);
    const every = Number(document.body.dataset.poll) * 1000;
    if (!every && !failures) return;
    const calm = told ? NEWS_MS : streaming ? every * CALM : every;
    const wait = failures ? Math.min(LONGEST_MS, ACTIVE_MS * 2 ** failures) : calm;
    timer = window.setTimeout(tick, wait);
    if (!failures) follow();
  }

  // If the body's `data-stream` names a stream of events, the page updates after each event, and
  // polls rarely. A hidden page closes its connection: a browser has six per server.
  const NEWS_MS = 400; // events that come together are one piece of news
  const CALM = 8;
  let streaming = null;
  let told = false;

  function news() {
    if (told) return;
    told = true;
    window.clearTimeout(timer);
    timer = window.setTimeout(tick, NEWS_MS);
  }

  async function follow() {
    const address = document.body.dataset.stream;
    if (!address || streaming || document.hidden) return;
    const mine = new AbortController();
    streaming = mine;
    try {
      const response = await fetch(address, {
        headers: { Accept: "text/event-stream" }, signal: mine.signal, redirect: "manual",
      });
      if (response.status === 200) {
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          if (/^data:/m.test(value)) news();
        }
      }
    } catch { /* polling continues */ }
    if (streaming !== mine) return;
    streaming = null;
    if (!document.hidden && !told) askByTheClock();
  }

  function askByTheClock() {
    const every = Number(document.body.dataset.poll) * 1000;
    window.clearTimeout(timer);
    if (every) timer = window.setTimeout(tick, every);
  }

  function letGo() {
    streaming?.abort();
    streaming = null;
  }

  // ---- charts -------------------------------------------------------------------------------

  const drawn = new WeakMap(); // chart element -> the text it was drawn from
  let library = null;

  function loadLibrary() {
    library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = document.body.dataset.charts;
      script.onload = () => resolve(window.adaptlabCharts);
      script.onerror = () => reject(new Error("the chart library did not load"));
      document.head.append(script);
    });
    return library;
  }

  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function say(chart, words) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = words;
    chart.replaceChildren(note);
  }

  // The new drawing is created next to the old one and then replaces it, without flicker.
  async function draw(chart, text) {
    const { vegaEmbed } = await loadLibrary();
    if (!chart.isConnected) return; // its region was replaced, and nothing there has a width
    const holder = document.createElement("div");
    holder.className = "drawing";
    holder.hidden = chart.querySelector(".drawing, .first-drawing") !== null;
    const spec = JSON.parse(text);
    // Rules only divide the drawing, so screen readers skip them.
    const rule = { ...spec.config?.rule, aria: false };
    spec.config = { ...spec.config, rule, background: "transparent", padding: 2 };
    if (chart.classList.contains("wide")) {
      const padding = parseFloat(getComputedStyle(chart).paddingLeft) * 2;
      spec.width = Math.max(220, chart.clientWidth - padding);
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
    if (!holder.hidden) chart.replaceChildren(holder);
    else chart.append(holder);
    const result = await vegaEmbed(holder, spec, {
      ...chartOptions,
      renderer: chart.dataset.renderer ?? chartOptions.renderer,
      loader: { load: () => Promise.reject(new Error("charts contain their own data")) },
      tooltip: { disableDefaultStyle: true },
    });
    holder.hidden = false;
    chart.replaceChildren(holder);
    fit(holder);
    if (holder.scrollWidth > holder.clientWidth) holder.tabIndex = 0; // the keyboard scrolls it too
    chart.drawnWidth = chart.clientWidth;
    chart.result?.finalize();
    chart.result = result;
    if (chart.dataset.picks) picks(chart, result);
    drawn.set(chart, text);
    chart.dataset.drawn = String(Number(chart.dataset.drawn ?? 0) + 1);
  }

  // A drawing that is a little too wide is scaled down; a much wider one scrolls.
  function fit(holder) {
    const picture = holder.querySelector("svg");
    const share = picture ? holder.clientWidth / picture.clientWidth : 1;
    if (share > 0.8 && share < 1) Object.assign(picture.style, { maxWidth: "100%", height: "auto" });
  }

  // Drawings of one chart are created in order, so that the latest remains.
  function drawInTurn(chart, text) {
    const before = chart.drawing ?? Promise.resolve();
    chart.drawing = before.catch(() => {}).then(() => draw(chart, text));
    return chart.drawing;
  }

  // Heat maps side by side, or stacked on a narrow screen.
  function columnsOf(chart) {
    return Math.max(1, Math.min(3, Math.floor(chart.clientWidth / MAP_WIDTH)));
  }

  async function ask(address) {
    const response = await fetch(address, { headers: { Accept: "application/json" } });
    if (response.status === 204 || response.status === 404) return "";
    if (!response.ok) throw new Error(`the server returned status ${response.status}`);
    return response.text();
  }

  // A source that ends in `#NAME` is an object of several charts. It is fetched once, because its
  // address changes with its content.
  const together = new Map();

  async function askPart(address) {
    const name = decodeURIComponent(address.hash.slice(1));
    address.hash = "";
    const key = address.href;
    if (!together.has(key)) {
      const answer = ask(address).then((text) => (text ? JSON.parse(text) : {}));
      answer.catch(() => together.delete(key));
      together.set(key, answer);
    }
    const chart = (await together.get(key))[name];
    return chart === undefined ? "" : JSON.stringify(chart);
  }

  async function showChart(chart) {
    const source = chart.dataset.source;
    const turn = (chart.asked ?? 0) + 1;
    chart.asked = turn;
    try {
      const address = new URL(source, location.href);
      address.searchParams.set("theme", dark.matches ? "dark" : "light");
      if (!chart.classList.contains("wide")) address.searchParams.set("columns", columnsOf(chart));
      const text = await (address.hash ? askPart(address) : ask(address));
      if (chart.dataset.source !== source) return; // another selection was made meanwhile
      if (chart.shown > turn) return; // what was asked for later has come earlier
      chart.shown = turn;
      if (!text) {
        if (!drawn.has(chart)) say(chart, chart.dataset.empty ?? "No data yet.");
        return;
      }
      if (drawn.get(chart) === text) return;
      await drawInTurn(chart, text);
    } catch (error) {
      if (!drawn.has(chart)) say(chart, `This chart could not be drawn: ${error.message}.`);
    }
  }

  // On a page with many charts, only those near the visible part are drawn.
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      showChart(target);
    }
  }, { rootMargin: "600px" });

  const isOneOfMany = (chart) => "lazy" in chart.dataset || chart.dataset.source.includes("#");

  function showCharts(selector) {
    for (const chart of document.querySelectorAll(selector)) {
      if (drawn.has(chart) || !isOneOfMany(chart)) showChart(chart);
    }
  }

  // Charts with a fixed width need no redrawing.
  function fitCharts() {
    for (const chart of document.querySelectorAll(".chart.wide[data-source]")) {
      const text = drawn.get(chart);
      if (text && chart.clientWidth !== chart.drawnWidth) drawInTurn(chart, text).catch(() => {});
    }
  }

  // The fields of a form with `data-selects="ID ID"` become the query of `data-from` of these
  // charts. With `data-in-address`, they also become the query of the page, whose text follows.
  const KEY_MS = 80; // a slider that is dragged asks when it rests

  function followSelection(form) {
    const charts = form.dataset.selects.split(" ").map((id) => document.getElementById(id));
    const choose = () => {
      const query = new URLSearchParams(new FormData(form));
      for (const chart of charts) {
        chart.dataset.source = `${chart.dataset.from}?${query}`;
        showChart(chart);
      }
      return query;
    };
    let resting = 0;
    const chosen = () => {
      window.clearTimeout(resting);
      resting = window.setTimeout(() => {
        const query = choose();
        if (!("inAddress" in form.dataset)) return;
        const kept = new URLSearchParams(location.search);
        for (const [name, value] of query) kept.set(name, value);
        history.replaceState(null, "", `?${kept}${location.hash}`);
        tick();
      }, KEY_MS);
    };
    form.addEventListener("input", chosen);
    if ("inAddress" in form.dataset) form.addEventListener("submit", (event) => event.preventDefault());
    choose();
  }

  // A click on a mark sets its values in the form that the chart names.
  function picks(chart, result) {
    const form = document.getElementById(chart.dataset.picks);
    result.view.addEventListener("click", (_, item) => {
      const datum = item?.datum;
      if (datum?.layer === undefined) return;
      for (const name of ["layer", "head"]) form.elements[name].value = datum[name];
      form.dispatchEvent(new Event("input"));
    });
  }

  // Fields of a form that also has buttons for addresses, which these fields would only lengthen.
  function leaveOut(form) {
    const fields = [...form.elements].filter((field) => "onlyPosted" in field.dataset);
    for (const field of fields) field.disabled = true;
    window.setTimeout(() => { for (const field of fields) field.disabled = false; });
  }

  // ---- start --------------------------------------------------------------------------------

  // Also called for every region that has been replaced.
  function begin(root) {
    showTimes(root);
    for (const form of root.querySelectorAll("form[data-submit-on-change]")) {
      form.addEventListener("change", () => form.requestSubmit());
    }
    for (const all of root.querySelectorAll("input[data-ticks]")) {
      all.addEventListener("change", () => {
        const boxes = document.querySelectorAll(`input[type=checkbox][form="${CSS.escape(all.dataset.ticks)}"]`);
        for (const box of boxes) box.checked = all.checked;
      });
    }
    for (const chart of root.querySelectorAll(".chart[data-source]")) {
      if (drawn.has(chart)) continue;
      if (isOneOfMany(chart)) near.observe(chart);
      else showChart(chart);
    }
    for (const form of root.querySelectorAll("form[data-selects]")) followSelection(form);
    for (const list of root.querySelectorAll("select[data-draws]")) {
      list.addEventListener("change", () => {
        const chart = document.getElementById(list.dataset.draws);
        chart.dataset.source = list.value;
        showChart(chart);
      });
    }
  }

  // A file that is dropped on the form is sent at once.
  function takeFiles(form) {
    const field = form.querySelector("input[type=file]");
    form.querySelector("[data-hint]").hidden = false;
    const over = (event, is) => {
      if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      event.preventDefault();
      form.classList.toggle("over", is);
    };
    form.addEventListener("dragover", (event) => over(event, true));
    form.addEventListener("dragleave", (event) => over(event, false));
    form.addEventListener("drop", (event) => {
      over(event, false);
      if (!event.dataTransfer?.files.length) return;
      const one = new DataTransfer();
      one.items.add(event.dataTransfer.files[0]);
      field.files = one.files;
      form.requestSubmit();
    });
  }

  remember(document);
  begin(document);
  for (const form of document.querySelectorAll("form[data-drop]")) takeFiles(form);
  document.addEventListener("pointerdown", holdStill, { capture: true });
  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
    if (event.submitter?.formMethod === "get") leaveOut(event.target);
  });
  document.addEventListener("click", (event) => closeMenus(event.target));
  document.addEventListener("keydown", (event) => event.key === "Escape" && closeMenus(null));
  document.addEventListener("adaptlab:refreshed", () => showCharts("[data-follow]"));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) letGo();
    else if (document.body.hasAttribute("data-poll")) tick();
  });
  dark.addEventListener("change", () => showCharts(".chart[data-source]"));
  let resizing = 0;
  window.addEventListener("resize", () => {
    window.clearTimeout(resizing);
    resizing = window.setTimeout(fitCharts, 150);
  });
  window.setInterval(() => showTimes(document), 15000);
  schedule();
})();
