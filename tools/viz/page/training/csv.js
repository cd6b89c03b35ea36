// Writes runs as CSV (RFC 4180): one row per step and run.

/** @param {import("../data").TrainingRun[]} runs */
export function runsAsCsv(runs) {
  const names = [...new Set(runs.flatMap((run) => run.columns.map((column) => column.name)))];
  const rows = runs.flatMap((run) => {
    const columns = names.map((name) => run.columns.find((column) => column.name === name)?.values ?? []);
    const count = columns.reduce((most, values) => Math.max(most, values.length), 0);
    return Array.from({ length: count }, (_, i) => [run.name, ...columns.map((values) => values[i] ?? "")]);
  });
  return [["run", ...names], ...rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

// Quotes a field. A text that a spreadsheet would take for a formula is prefixed, so that it stays text.
function field(value) {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
