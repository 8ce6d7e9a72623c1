// What the forms of a job and a study do beyond plain HTML: they ask as one types.
// The form is sent to its preview, whose answer is the whole page; what it says of the fields is
// taken over and the fields themselves are left as they are typed.
"use strict";

(() => {
  const PAUSE_MS = 350; // after the last key
  const form = document.querySelector("form[data-preview]");
  if (!form) return;
  let timer = 0;
  let asking = null;

  const attributes = ["aria-invalid", "placeholder"];

  // An answer's children move over into the element that is there: a status goes on being one.
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

  // After a click that changes values: what the server filled in.
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

  async function ask(submitter = null) {
    window.clearTimeout(timer);
    asking?.abort();
    const mine = (asking = new AbortController());
    const body = content(submitter);
    form.dataset.state = "asking";
    try {
      const response = await fetch(form.dataset.preview, {
        method: "POST",
        headers: { Accept: "text/html" },
        body,
        redirect: "manual",
        signal: mine.signal,
      });
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (asking !== mine) return;
      if (submitter) takeValues(page);
      takeKnobs(page);
      takeMarks(page);
      takeAnswers(page);
      form.dataset.state = "answered";
    } catch (error) {
      if (error.name === "AbortError") return;
      form.dataset.state = "unanswered";
      const told = document.getElementById("told");
      if (told) told.textContent = `No answer: ${error.message}. Press Preview to try again.`;
    }
  }

  function soon() {
    window.clearTimeout(timer);
    form.dataset.state = "typing";
    timer = window.setTimeout(ask, PAUSE_MS);
  }

  function told(event) {
    return event.target.name !== "pasted"; // it is read by its own button
  }

  form.addEventListener("input", (event) => { if (told(event)) soon(); });
  form.addEventListener("change", (event) => { if (told(event)) soon(); });
  form.addEventListener("submit", (event) => {
    const button = event.submitter;
    // Filling in another spec brings other fields: that is a page of its own.
    if (!button?.hasAttribute("formaction") || button.name === "do") return;
    event.preventDefault();
    const beside = button.closest(".spec-field")?.querySelector("[name]:not(button)");
    ask(button);
    if (button.name === "use") beside?.focus();
  });

  // A clipboard is there under TLS and on this machine only; elsewhere the text is selected.
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
