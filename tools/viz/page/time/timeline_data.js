// Reads the timeline of a normal run with concurrent steps: its spans as blocks of tracks, how busy each track was, and how
// much of the communication was overlapped by computation.
const kCommunication = /^(all_reduce|all_gather|reduce_scatter|all_to_all|broadcast)$/;

export function isCommunication(op) {
  return kCommunication.test(op);
}

/** Returns "thread 0", or "rank 1, thread 0" if there are several ranks. */
export function trackNames(timeline) {
  const several = timeline.tracks.some((track) => track.rank > 0);
  return timeline.tracks.map(({ name, rank }) => (several ? `rank ${rank}, ${name}` : name));
}

/** Returns one row per span: the step's row (time_data.js) with the span's track and time. `all`: the time of all its spans. */
export function spanRows(timeline, rows) {
  const { step, track, start_us, end_us } = timeline.spans;
  return step.map((at, i) => ({ ...rows[at], i, step: at, track: track[i], start: start_us[i], end: end_us[i], us: end_us[i] - start_us[i] }));
}

/** Returns the number of spans, the busy time and its share of the run, by track. */
export function trackRows(timeline, spans) {
  const tracks = trackNames(timeline).map((name, track) => ({ name, track, count: 0, us: 0, communication: 0 }));
  for (const span of spans) {
    const row = tracks[span.track];
    row.count += 1;
    row.us += span.us;
    if (isCommunication(span.op)) row.communication += span.us;
  }
  return tracks.map((row) => ({ ...row, share: timeline.total_us > 0 ? row.us / timeline.total_us : null }));
}

/** Returns the time of communication and how much of it overlapped with computation, by rank. */
export function communicationRows(timeline, spans) {
  const rankOf = (span) => timeline.tracks[span.track].rank, ranks = [...new Set(timeline.tracks.map((track) => track.rank))];
  return ranks.map((rank) => {
    const mine = spans.filter((span) => rankOf(span) === rank), [there, here] = [true, false].map((wanted) => union(mine.filter((span) => isCommunication(span.op) === wanted)));
    const total = length(there), both = length(there) + length(here) - length(union([...there, ...here]));
    return { rank, us: total, hidden: both };
  }).filter((row) => row.us > 0);
}

/** Returns the union of intervals as a sorted list without overlaps. */
export function union(spans) {
  const joined = [];
  for (const { start, end } of [...spans].sort((a, b) => a.start - b.start)) {
    const last = joined[joined.length - 1];
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else joined.push({ start, end });
  }
  return joined;
}

function length(intervals) {
  return intervals.reduce((sum, { start, end }) => sum + end - start, 0);
}
