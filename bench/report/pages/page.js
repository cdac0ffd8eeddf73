// Sorts and filters the tables of class "board". Without this script they are plain tables, best first.
for (const table of document.querySelectorAll("table.board")) {
  const heads = [...table.tHead.rows[0].cells];
  const groups = [...table.tBodies].map(body => ({ body, rows: [...body.rows].filter(row => row.className !== "group") }));
  const rows = groups.flatMap(group => group.rows);
  const value = (row, column) => {
    const text = row.cells[column].dataset.v, number = Number(text);
    return text === "" ? null : Number.isNaN(number) ? text : number;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const words = rows.some(row => typeof value(row, column) === "string");
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : !words && head.title !== "" && !head.textContent.startsWith("tier");
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = (one, other) => {
        const a = value(one, column), b = value(other, column);
        if (a === null || b === null) return (a === null) - (b === null);  // what is missing comes last, either way
        const order = words ? String(a).localeCompare(String(b)) : a - b;
        return down ? -order : order;
      };
      for (const group of groups) group.body.append(...[...group.rows].sort(compare));  // within each group
    });
  });
  const bar = document.createElement("form"), search = document.createElement("input"), count = document.createElement("output");
  bar.className = "filter";
  bar.addEventListener("submit", event => event.preventDefault());
  Object.assign(search, { type: "search", placeholder: "Filter methods", ariaLabel: "Filter methods by name" });
  bar.append(search);
  const marks = [...new Set(rows.flatMap(row => (row.dataset.marks || "").split(" ")))].filter(Boolean).sort();
  const boxes = marks.map(mark => {
    const box = document.createElement("input"), label = document.createElement("label");
    Object.assign(box, { type: "checkbox", checked: true, value: mark });
    label.append(box, ` ${mark}`);
    bar.append(label);
    return box;
  });
  bar.append(count);
  const filter = () => {
    const wanted = search.value.trim().toLowerCase(), off = boxes.filter(box => !box.checked).map(box => box.value);
    for (const row of rows) {
      const own = (row.dataset.marks || "").split(" ");
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted) || off.some(mark => own.includes(mark));
    }
    for (const group of groups) group.body.hidden = group.rows.every(row => row.hidden);
    count.textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length}`;
  };
  bar.addEventListener("input", filter);
  table.closest(".scroll").before(bar);
  filter();
}

// Shows one of the sections in each ".choose", by their group and option. Without this script all are shown.
for (const place of document.querySelectorAll(".choose")) {
  const sections = [...place.children];
  const groups = [...new Set(sections.map(section => section.dataset.group))];
  const bar = document.createElement("form");
  bar.className = "filter";
  bar.addEventListener("submit", event => event.preventDefault());
  const select = (name, options) => {
    const label = document.createElement("label"), made = document.createElement("select");
    made.append(...options.map(text => new Option(text)));
    label.append(`${name} `, made);
    bar.append(label);
    return made;
  };
  const group = groups.length > 1 ? select("Budget", groups) : null;
  const option = select(group ? "of" : groups[0], []);
  const own = () => sections.filter(section => !group || section.dataset.group === group.value);
  const show = () => sections.forEach(section => { section.hidden = section !== own()[option.selectedIndex]; });
  const fill = () => {
    option.replaceChildren(...own().map(section => new Option(section.dataset.option)));
    option.selectedIndex = Math.floor((own().length - 1) / 2);
    show();
  };
  if (group) group.addEventListener("change", fill);
  option.addEventListener("change", show);
  place.before(bar);
  fill();
}
