// A calculator's table becomes a form: inputs in place of the default values, results as the reader types.
// The grammar is that of build/bookpress/calculators.py; tests compare both on random inputs.
{
  const functions = {
    min: Math.min, max: Math.max, ceil: Math.ceil, floor: Math.floor, sqrt: Math.sqrt, log2: Math.log2,
  };
  const tokens = /\s*(?:(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/(),]))/y;

  const evaluate = (formula, values) => {
    const list = [];
    tokens.lastIndex = 0;
    while (tokens.lastIndex < formula.trimEnd().length) {
      const found = tokens.exec(formula);
      if (!found) throw new Error(`cannot read ${formula}`);
      list.push(found[1] !== undefined ? { number: Number(found[1]) } : found[2] ? { name: found[2] } : { sign: found[3] });
    }
    let at = 0;
    const take = (sign) => list[at]?.sign === sign && ++at > 0;
    const need = (sign) => { if (!take(sign)) throw new Error(`${sign} is missing in ${formula}`); };
    const sum = () => {
      let left = product();
      for (;;) {
        if (take("+")) left += product();
        else if (take("-")) left -= product();
        else return left;
      }
    };
    const product = () => {
      let left = negative();
      for (;;) {
        if (take("*")) left *= negative();
        else if (take("/")) {
          const right = negative();
          left = right === 0 ? NaN : left / right; // the press raises there
        } else return left;
      }
    };
    const negative = () => (take("-") ? -negative() : power());
    const power = () => {
      const base = atom();
      return take("**") ? base ** negative() : base;
    };
    const atom = () => {
      const token = list[at++] ?? {};
      if (token.number !== undefined) return token.number;
      if (token.name && take("(")) {
        const given = [sum()];
        while (take(",")) given.push(sum());
        need(")");
        if (!Object.hasOwn(functions, token.name)) throw new Error(`no ${token.name} in ${formula}`);
        return functions[token.name](...given);
      }
      if (token.name && Object.hasOwn(values, token.name)) return values[token.name];
      if (token.sign !== "(") throw new Error(`cannot read ${formula}`);
      const inside = sum();
      need(")");
      return inside;
    };
    return sum();
  };

  // As facts.figure prints: thousands grouped from 10,000, a true minus.
  const figure = (value, digits) => {
    if (!Number.isFinite(value)) return "–";
    const useGrouping = Math.abs(value) >= 10000;
    const options = digits === null ? { maximumSignificantDigits: 10 } : { minimumFractionDigits: digits, maximumFractionDigits: digits };
    return value.toLocaleString("en-US", { ...options, useGrouping }).replace("-", "−");
  };

  const activate = (box) => {
    const about = JSON.parse(box.textContent);
    const rows = [...box.closest("figure").querySelectorAll("tbody tr")];
    const fields = about.inputs.map((input, i) => {
      const row = rows[i];
      const cell = row.children[1];
      const field = Object.assign(document.createElement("input"), { type: "number", step: "any", min: input.min, value: input.value });
      if (input.max !== null) field.max = input.max;
      field.setAttribute("aria-label", input.unit ? `${input.label}, ${input.unit}` : input.label);
      cell.replaceChildren(field);
      if (input.presets.length) {
        const choice = document.createElement("select");
        choice.setAttribute("aria-label", `${input.label}: known values`);
        choice.append(new Option("choose …", ""), ...input.presets.map((p) => new Option(p.label, p.value)));
        choice.addEventListener("change", () => {
          if (choice.value === "") return;
          field.value = choice.value;
          update();
        });
        field.addEventListener("input", () => { choice.value = ""; });
        row.children[3].append(choice);
      }
      field.addEventListener("input", () => update());
      return field;
    });
    const results = about.outputs.map((output, i) => {
      const place = rows[about.inputs.length + i].children[1].querySelector("strong");
      place.setAttribute("role", "status");
      return place;
    });
    const update = () => {
      const values = {};
      about.inputs.forEach((input, i) => {
        values[input.name] = fields[i].value.trim() === "" || !fields[i].validity.valid ? NaN : Number(fields[i].value);
        fields[i].toggleAttribute("aria-invalid", Number.isNaN(values[input.name]));
      });
      about.outputs.forEach((output, i) => {
        values[output.name] = evaluate(output.formula, values);
        results[i].textContent = figure(values[output.name], output.digits);
      });
    };
    box.closest("figure").classList.add("ui-live");
  };

  for (const box of document.querySelectorAll("script.ui-calculator")) activate(box);
  window.bookCalculator = { evaluate, figure };
}
