// Previews of the forms of a job and a study while the user types.
// The form is sent to its preview, whose answer is a whole page. Its messages replace those on the
// page; the fields keep what was typed.
"use strict";

(() => {
  const PAUSE_MS = 350; // after the last key
  const form = document.querySelector("form[data-preview]");
  if (!form) return;
  let timer = 0;
  let asking = null;

  const attributes = ["aria-invalid", "placeholder"];

  // The children of the answer move into the existing element, which stays a status region.
  function takeAnswers(page) {
    for (const fresh of page.querySelectorAll("[data-answer]")) {
      const old = document.getElementById(fresh.id);
      if (!old || old.innerHTML === fresh.innerHTML) continue;
      old.replaceChildren(...document.adoptNode(fresh).childNodes);
    }
  }

  // Another plug-in has other knobs.
  function takeKnobs(page) {
    for (const fresh of page.querySelectorAll("[data-knobs]")) {
      const old = document.getElementById(fresh.id);
      if (old && old.dataset.knobs !== fresh.dataset.knobs) old.replaceWith(document.adoptNode(fresh));
    }
  }

  function takeMarks(page) {
    for (const old of form.querySelectorAll("[id][name]")) {
      const fresh = page.getElementById(old.id);
      if (!fresh) continue;
      for (const name of attributes) {
        if (fresh.hasAttribute(name)) old.setAttribute(name, fresh.getAttribute(name));
        else old.removeAttribute(name);
      }
    }
  }

  // The values that the server filled in after a click.
  function takeValues(page) {
    for (const fresh of page.querySelectorAll("form[data-preview] [id][name]")) {
      const old = document.getElementById(fresh.id);
      if (!old || old.type !== fresh.type) continue;
      if (old.type === "checkbox") old.checked = fresh.checked;
      else old.value = fresh.value;
    }
  }

  function content(submitter) {
    const filled = new FormData(form, submitter);
    return new URLSearchParams([...filled].map(([name, value]) => [name, String(value)]));
  }

  // The typed text is stored with this entry of the browser's history. A page that answered a form
  // has an address at which it can be loaded again.
  function keep() {
    history.replaceState({ typed: String(content()) }, "", form.dataset.address ?? location.href);
  }

  async function comeBack(typed) {
    form.inert = true; // until its fields are as they were
    await ask(null, new URLSearchParams(typed));
    form.inert = false;
  }

  function isAsItCame() {
    return [...form.elements].every((field) => {
      if (field.type === "checkbox") return field.checked === field.defaultChecked;
      if (!field.options) return field.defaultValue === undefined || field.value === field.defaultValue;
      const chosen = [...field.options].find((option) => option.defaultSelected) ?? field.options[0];
      return field.selectedOptions[0] === chosen;
    });
  }

  async function ask(submitter = null, typed = null) {
    window.clearTimeout(timer);
    asking?.abort();
    const mine = (asking = new AbortController());
    const body = typed ?? content(submitter);
    if (!typed) keep();
    form.dataset.state = "asking";
    try {
      const response = await fetch(form.dataset.preview, {
        method: "POST",
        headers: { Accept: "text/html" },
        body,
        redirect: "manual",
        signal: mine.signal,
      });
      if (!response.ok) throw new Error(`the server returned status ${response.status}`);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (asking !== mine) return;
      if (submitter || typed) takeValues(page);
      takeKnobs(page);
      takeMarks(page);
      takeAnswers(page);
      if (submitter) keep();
      form.dataset.state = "answered";
    } catch (error) {
      if (error.name === "AbortError") return;
      form.dataset.state = "unanswered";
      const told = document.getElementById("told");
      if (told) told.textContent = `No preview: ${error.message}. Press Preview to try again.`;
    }
  }

  function soon() {
    window.clearTimeout(timer);
    form.dataset.state = "typing";
    timer = window.setTimeout(() => ask(), PAUSE_MS);
  }

  function told(event) {
    return event.target.name !== "pasted"; // it is read by its own button
  }

  form.addEventListener("input", (event) => { if (told(event)) soon(); });
  form.addEventListener("change", (event) => {
    keep();
    if (told(event)) soon();
  });
  form.addEventListener("submit", (event) => {
    const button = event.submitter;
    keep();
    // Another spec has other fields, so the whole page is loaded.
    if (!button?.hasAttribute("formaction") || button.name === "do") return;
    event.preventDefault();
    const beside = button.closest(".spec-field")?.querySelector("[name]:not(button)");
    ask(button);
    if (button.name === "use") beside?.focus();
  });

  if (form.dataset.address) keep();
  if (!form.dataset.address && history.state?.typed) comeBack(history.state.typed);
  // The browser restored the typed text, or the user typed before this script ran.
  else window.addEventListener("pageshow", () => { if (!isAsItCame()) ask(); });

  // The clipboard needs TLS or localhost; otherwise the text is selected.
  async function copy(button) {
    const text = document.getElementById(button.dataset.copies);
    getSelection().selectAllChildren(text);
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected";
    }
    window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  for (const button of document.querySelectorAll("[data-copies]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
})();
