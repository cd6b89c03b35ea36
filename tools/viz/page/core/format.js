// Formats numbers for people.

/** 1536 -> "1.50 KiB". */
export function bytes(count) {
  if (count === null || count === undefined) return "unknown";
  if (Math.abs(count) < 1024) return `${Math.round(count)} B`;
  return scaled(count, 1024, ["KiB", "MiB", "GiB", "TiB", "PiB"]);
}

/** The same for the ticks of an axis: "32 MiB", not "32.0 MiB". */
export function roundBytes(count) {
  return bytes(count).replace(/\.0+ /, " ");
}

/** 2500000 -> "2.50 M". */
export function quantity(count, unit = "") {
  if (count === null || count === undefined) return "unknown";
  if (Math.abs(count) < 1000) return `${digits(count)}${unit ? " " + unit : ""}`;
  return scaled(count, 1000, ["k", "M", "G", "T", "P", "E"].map((prefix) => prefix + unit));
}

/** Formats microseconds with a unit. */
export function duration(us) {
  if (us === null || us === undefined) return "unknown";
  if (Math.abs(us) < 1000) return `${digits(us)} µs`;
  return us < 1e6 ? `${digits(us / 1e3)} ms` : `${digits(us / 1e6)} s`;
}

export function percent(share) {
  if (share === null || !Number.isFinite(share)) return "–";
  return share >= 0.0995 || share === 0 ? `${(share * 100).toFixed(0)} %` : `${(share * 100).toFixed(1)} %`;
}

/** Returns three or four significant digits, with an exponent only if the number would be hard to read without one. */
export function digits(value) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
  if (Number.isInteger(value)) return String(value);
  return value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 5).replace(/0+$/, "").replace(/\.$/, "");
}

/** "1 node", "2 nodes". */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

function scaled(value, base, units) {
  let at = -1;
  do {
    value /= base;
    ++at;
  } while (Math.abs(value) >= base && at + 1 < units.length);
  return `${value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)} ${units[at]}`;
}
