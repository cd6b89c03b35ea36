// Follows runs while they train: asks the page's own server, the only one that the page may contact, for new rows.

/**
 * @param {import("../data").PageData} json
 * @param {{update(): void, status: HTMLElement}} view
 * @param {(url: string) => Promise<any>} ask
 */
export function follow(json, view, ask = async (url) => (await fetch(url)).json()) {
  const next = json.runs.map((run) => run.rows);
  const turn = async () => {
    try {
      const changed = await Promise.all(json.runs.map((run, i) => more(json.live.path, run, i, next, ask)));
      view.status.textContent = `Live: ${new Date().toLocaleTimeString()}`;
      if (changed.some((count) => count > 0)) view.update();
    } catch {
      view.status.textContent = "The server of this page does not answer; what came so far stays.";
    }
    setTimeout(turn, Math.max(200, json.live.interval_ms));
  };
  setTimeout(turn, Math.max(200, json.live.interval_ms));
}

async function more(path, run, i, next, ask) {
  const answer = await ask(`${path}/rows?run=${i}&from=${next[i]}&generation=${run.generation ?? 0}`);
  if (answer.reset) Object.assign(run, { columns: [], rows: 0, expert_load: undefined });
  run.generation = answer.generation ?? 0;
  for (const row of answer.rows) addRow(run, row);
  next[i] = answer.next;
  return answer.rows.length + (answer.reset ? 1 : 0);
}

/** Appends one line of metrics.jsonl to the columns; missing values become null. */
export function addRow(run, row) {
  for (const [name, value] of Object.entries(row)) {
    if (typeof value !== "number") continue;
    if (!run.columns.some((column) => column.name === name)) run.columns.push({ name, values: new Array(run.rows).fill(null) });
  }
  for (const column of run.columns) column.values.push(Object.hasOwn(row, column.name) && typeof row[column.name] === "number" ? row[column.name] : null);
  if (Array.isArray(row.expert_load)) run.expert_load ??= new Array(run.rows).fill(null);
  run.expert_load?.push(Array.isArray(row.expert_load) ? row.expert_load : null);
  ++run.rows;
}
