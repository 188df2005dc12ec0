"use strict";
(() => {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const dialog = document.getElementById("dialog");
  const body = document.getElementById("dialog-body");
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  function remembered(value) {
    try {
      if (value) localStorage.setItem("rtm-theme", value);
      return localStorage.getItem("rtm-theme");
    } catch {
      return null; // a browser that keeps nothing for files
    }
  }

  function dress(choice) {
    if (choice) root.dataset.theme = choice;
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to ${theme.textContent.toLowerCase()} colours`);
  }

  theme.hidden = false;
  theme.addEventListener("click", () => dress(remembered(isDark() ? "light" : "dark") || (isDark() ? "light" : "dark")));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dress());
  dress(remembered());

  function show(title, content, wide) {
    document.getElementById("dialog-title").textContent = title;
    body.replaceChildren(content);
    dialog.classList.toggle("wide", wide);
    dialog.showModal();
  }

  document.addEventListener("click", (event) => {
    const cell = event.target.closest("a[data-name]");
    const story = cell && document.getElementById(cell.hash.slice(1))?.querySelector(".text");
    if (story && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      show(`${cell.dataset.name}: ${cell.textContent.trim()}`, story.cloneNode(true), false);
    }
    if (event.target === dialog) dialog.close();
  });

  function enlarged(image) { // whole at first; a click brings it near, to be moved in all directions, and back
    const large = image.cloneNode();
    const near = () => {
      const isNear = large.classList.toggle("near");
      large.classList.toggle("whole", !isNear);
      large.title = isNear ? "Click to see all of it" : "Click for a closer look";
    };
    large.className = "near";
    near();
    large.addEventListener("click", near);
    return large;
  }

  for (const image of document.querySelectorAll("figure img")) {
    const enlarge = () => show(image.alt, enlarged(image), true);
    image.tabIndex = 0;
    image.setAttribute("role", "button");
    image.addEventListener("click", enlarge);
    image.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        enlarge();
      }
    });
  }

  function unfold() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target && target.closest("details");
    if (folded) folded.open = true;
  }
  addEventListener("hashchange", unfold);
  unfold();
})();
