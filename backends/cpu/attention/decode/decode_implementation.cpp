// The implementation `decode` of attention, for few queries. A task takes one key head and a chunk of keys, so that all cores
// share the KV cache; then the results of the chunks are merged. The split depends only on shapes.
#include <algorithm>

#include "backends/cpu/attention/attention_cut.h"
#include "backends/cpu/attention/decode/decode_task.h"
#include "backends/cpu/parallel/task_scratch.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

using Geometry = AttentionGeometry;

constexpr int64_t kMaxQueries = 4;

struct DecodeCut {
  int64_t heads;         // query heads per task
  int64_t chunks;        // tasks that share a key head and its chunk of keys
  int64_t parts;         // chunks of keys
  int64_t stride, rows;  // floats of a row's partial result; rows per task
  int64_t columns(const Geometry& g) const { return g.batch * g.key_heads * chunks; }
  int64_t partial(int64_t column, int64_t part) const { return (column * parts + part) * rows * stride; }
  CheckedSize floats(const Geometry& g) const { return CheckedSize(columns(g)) * parts * rows * stride; }
};

DecodeCut cut_decode(const Geometry& g) {
  DecodeCut cut{};
  cut.heads = std::min(g.group(), kDecodeRows / std::max<int64_t>(1, g.queries));
  cut.chunks = parts_over(g.group(), cut.heads);
  cut.parts = parts_over(g.keys, kDecodeKeys);
  cut.stride = g.v_size + 2;
  cut.rows = cut.heads * g.queries;
  return cut;
}

std::optional<std::string> needs_few_queries(const KernelQuery& query) {
  if (auto why_not = needs_f32_at_most(query)) return why_not;
  const Geometry g = attention_geometry(query);
  if (g.queries > kMaxQueries) return fmt::format("it takes at most {} queries", kMaxQueries);
  if (g.heads == 0 || g.size % 16 != 0 || g.v_size % 16 != 0)
    return "it takes head sizes that are multiples of 16";
  return std::nullopt;
}

int64_t decode_tasks(const Geometry& g, const DecodeCut& cut) {
  return (CheckedSize(cut.columns(g)) * cut.parts).value();
}
int64_t decode_tasks_bytes(const Geometry& g, const DecodeCut& cut) {
  return TaskScratch::bytes_for(decode_tasks(g, cut),
                                (CheckedSize(decode_floats(g.size, g.v_size)) * kFloat).value());
}

int64_t decode_scratch(const KernelQuery& query) {
  const Geometry g = attention_geometry(query);
  const DecodeCut cut = cut_decode(g);
  return (cut.floats(g) * kFloat + decode_tasks_bytes(g, cut)).value();
}

// The chunks of keys [first, end) that any query of batch row `b` sees.
struct Parts {
  int64_t first, end;
};
Parts parts_of(const Geometry& g, const KernelContext& c, int64_t b) {
  const VisibleKeys visible = visible_keys_of(g, c, b, 0);
  return {visible.begin(0) / kDecodeKeys, parts_over(visible.keys, kDecodeKeys)};
}

DecodeTask decode_task(const Geometry& g, const KernelContext& c, const DecodeCut& cut, int64_t column,
                       int64_t part, float* partials) {
  const int64_t chunk = column % cut.chunks, key_head = column / cut.chunks % g.key_heads,
                b = column / cut.chunks / g.key_heads;
  const int64_t first_head = chunk * cut.heads, first = part * kDecodeKeys;
  const AttentionHead head = head_of(g, c, b, key_head * g.group() + first_head);
  return {head,
          g.queries,
          std::min(cut.heads, g.group() - first_head),
          operand_heads(g, c).q.head_step,
          mask_head_step(g, c),
          first,
          std::min(kDecodeKeys, head.visible.keys - first),
          partials + cut.partial(column, part)};
}

void merge_row(const Geometry& g, const KernelContext& c, const DecodeCut& cut, int64_t row,
               float* partials) {
  const int64_t query = row % g.queries, h = row / g.queries % g.heads, b = row / g.queries / g.heads;
  const int64_t in_group = h % g.group(),
                column = (b * g.key_heads + h / g.group()) * cut.chunks + in_group / cut.heads;
  const int64_t at = in_group % cut.heads * g.queries + query;
  const auto [first, end] = parts_of(g, c, b);
  const float lse =
      merge_partials(partials + cut.partial(column, first) + at * cut.stride, end - first,
                     cut.rows * cut.stride, g.v_size, result_heads(g, c.output()).at(b, h).from(query));
  if (float* to = lse_of(c)) to[row] = lse;
}

void run_decode(const KernelContext& c) {
  const auto& g = c.prepared<Geometry>();
  const DecodeCut cut = cut_decode(g);
  check_key_range(g, c);
  const int64_t keys = most_keys(g, c), parts = parts_over(keys, kDecodeKeys);
  TaskScratch task_scratch(c.scratch, decode_tasks(g, cut), decode_floats(g.size, g.v_size) * kFloat);
  auto* partials = reinterpret_cast<float*>(c.scratch + decode_tasks_bytes(g, cut));
  const int64_t rows = g.batch * g.heads * g.queries;
  for_each_task(cut.columns(g) * parts, 4 * multiply_adds(g, keys), [&](int64_t index) {
    const int64_t column = index / parts, part = index % parts;
    const Parts seen = parts_of(g, c, column / cut.chunks / g.key_heads);
    if (part < seen.first || part >= seen.end) return;
    const DecodeTask task = decode_task(g, c, cut, column, part, partials);
    task_scratch.with([&](std::byte* scratch) { run_leaf(task, reinterpret_cast<float*>(scratch)); });
  });
  for_each_task(rows, static_cast<double>(rows) * static_cast<double>(parts * g.v_size),
                [&](int64_t row) { merge_row(g, c, cut, row, partials); });
}

}  // namespace

KernelImpl decode_attention_implementation() {
  return {.name = "decode",
          .run = run_decode,
          .can_run = needs_few_queries,
          .scratch_bytes = decode_scratch,
          .prepare = prepare_attention};
}

}  // namespace genesis::cpu
