"use strict";

// Tables: a column's name sorts by it, once more turns it round. Numbers come before words, empty cells last.
function compareKeys(a, b) {
  const numeric = [a, b].map((cell) => cell.dataset.kind === "number");
  if (numeric[0] && numeric[1]) return Number(a.dataset.key) - Number(b.dataset.key);
  if (numeric[0] !== numeric[1]) return numeric[0] ? -1 : 1;
  return a.dataset.key.localeCompare(b.dataset.key, undefined, { numeric: true });
}

function sortBy(table, column, direction) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const isEmpty = (row) => row.cells[column].dataset.key === undefined;
  const filled = rows.filter((row) => !isEmpty(row));
  filled.sort((a, b) => direction * compareKeys(a.cells[column], b.cells[column])); // equal ones stay in order
  body.append(...filled, ...rows.filter(isEmpty));
}

for (const table of document.querySelectorAll("table.sorts")) {
  if (table.querySelector(".nothing")) continue;
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.title = "Sort by " + button.textContent;
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sortBy(table, column, ascending ? 1 : -1);
    });
  });
}

// What is wider than its frame says so.
const frames = new ResizeObserver((entries) => {
  for (const { target } of entries) target.classList.toggle("more", target.scrollWidth > target.clientWidth);
});
for (const frame of document.querySelectorAll(".scrolls")) frames.observe(frame);

// Commands: a button that copies them.
function copyByHand(code) {
  const range = document.createRange();
  range.selectNodeContents(code);
  const selection = window.getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
  return document.execCommand("copy");
}

for (const block of document.querySelectorAll(".command")) {
  const code = block.querySelector("code");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy the command");
  button.addEventListener("click", async () => {
    let copied = true;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      copied = copyByHand(code);
    }
    button.textContent = copied ? "Copied" : "Selected";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
}

// Light or dark: as the system says, until the reader chooses.
const system = window.matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.createElement("button");
themeButton.type = "button";

function theme() {
  return document.documentElement.dataset.theme || (system.matches ? "dark" : "light");
}

function other() {
  return theme() === "dark" ? "light" : "dark";
}

function nameThemeButton() {
  themeButton.textContent = (other() === "dark" ? "☾ " : "☀ ") + other();
  themeButton.setAttribute("aria-label", "Switch to " + other() + " colours");
}

themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = other();
  nameThemeButton();
});
system.addEventListener("change", nameThemeButton);
nameThemeButton();
document.getElementById("theme").append(themeButton);

// Contents: where the reader is.
const links = new Map();
for (const link of document.querySelectorAll("nav a")) links.set(link.hash.slice(1), link);
const inView = new Set();
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) inView.add(entry.target.id);
    else inView.delete(entry.target.id);
  }
  let current = true;
  for (const [name, link] of links) {
    if (current && inView.has(name)) {
      link.setAttribute("aria-current", "true");
      current = false;
    } else link.removeAttribute("aria-current");
  }
}, { rootMargin: "0px 0px -60% 0px" });
for (const section of document.querySelectorAll("main section")) watch.observe(section);
