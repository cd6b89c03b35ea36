#include <cmath>

#include "backends/cuda/attention/attention.h"

namespace genesis::cuda {
namespace {

HeadSteps steps_of(const std::vector<int64_t>& sizes, bool heads_first) {
  const int64_t inner = sizes[2] * sizes[3];
  return {sizes[1] * inner, heads_first ? inner : sizes[3], heads_first ? sizes[3] : inner};
}

void read_mask(AttentionShape& s, const TensorType& mask) {
  s.mask_dtype = mask.dtype;
  const auto sizes = mask.shape.sizes();
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    s.mask_steps[i + 4 - sizes.size()] = sizes[i] == 1 ? 0 : step;
    step *= sizes[i];
  }
}

}  // namespace

AttentionShape attention_shape(const KernelQuery& query) {
  const auto rules = ops::attention_rules(query.op, query.attributes);
  const auto types = ops::qkv_types(rules, query.inputs);
  const auto q = types[0].shape.sizes(), k = types[1].shape.sizes(), v = types[2].shape.sizes();
  AttentionShape s;
  s.dtype = query.inputs[0].dtype;
  s.heads_first = rules.layout == AttentionLayout::kBHTD;
  const size_t heads = s.heads_first ? 1 : 2, time = 3 - heads;
  s.batch = q[0];
  s.heads = q[heads];
  s.key_heads = k[heads];
  s.queries = q[time];
  s.keys = k[time];
  s.size = q[3];
  s.v_size = v[3];
  s.scale = rules.scale != 0 ? rules.scale : 1 / std::sqrt(static_cast<double>(s.size));
  s.causal = rules.causal;
  s.has_mask = rules.has_mask;
  s.has_key_start = rules.has_key_start;
  s.has_key_length = rules.has_key_length;
  s.packed = rules.packed();
  s.own_lengths = s.has_key_length && query.inputs.back().shape.rank() == 1;
  s.window = rules.window;
  s.gradient = is<ops::AttentionGrad>(query.op);
  s.q = steps_of(s.packed ? query.inputs[0].shape.sizes() : q, s.heads_first);
  s.k = s.packed ? s.q : steps_of(k, s.heads_first);
  s.v = s.packed ? s.q : steps_of(v, s.heads_first);
  auto y = q;
  y[3] = v[3];
  s.y = steps_of(y, s.heads_first);
  s.first_optional = static_cast<int>(query.inputs.size()) - rules.optional_inputs();
  if (s.has_mask) read_mask(s, query.inputs[static_cast<size_t>(s.first_optional)]);
  return s;
}

namespace {

struct QkvPointers {
  void *q, *k, *v;
};

// Returns the pointers of q, k and v, or of their gradients.
QkvPointers qkv_pointers(const AttentionShape& s, std::span<const TensorView> tensors) {
  if (!s.packed) return {tensors[0].data, tensors[1].data, tensors[2].data};
  const auto head = [&](int64_t h) {
    return tensors[0].as<std::byte>() + h * s.q.head * static_cast<int64_t>(size_of(s.dtype));
  };
  return {head(0), head(s.heads), head(s.heads + s.key_heads)};
}

AttentionData common_data(const AttentionShape& s, const KernelContext& c) {
  AttentionData d;
  const QkvPointers x = qkv_pointers(s, c.inputs);
  d.q = x.q;
  d.k = x.k;
  d.v = x.v;
  if (s.has_mask) d.mask = c.input(s.first_optional).data;
  if (s.has_key_start) d.key_start = c.input(s.first_optional + s.has_mask).as<const int64_t>();
  if (s.has_key_length) d.key_length = c.inputs.back().as<const int64_t>();
  d.scratch = c.scratch;
  d.stream = launch_of(c).stream;
  d.early = launch_of(c).early;
  d.fault = launch_of(c).fault;
  return d;
}

}  // namespace

AttentionData forward_data(const AttentionShape& s, const KernelContext& c) {
  AttentionData d = common_data(s, c);
  d.y = c.output(0).data;
  d.lse = c.outputs.size() > 1 ? c.output(1).data : nullptr;
  return d;
}

AttentionData backward_data(const AttentionShape& s, const KernelContext& c) {
  AttentionData d = common_data(s, c);
  const int y = s.packed ? 1 : 3;
  d.y = c.input(y).data;
  d.lse = c.input(y + 1).data;
  d.dy = c.input(y + 2).data;
  const QkvPointers dx = qkv_pointers(s, c.outputs);
  d.dq = dx.q;
  d.dk = dx.k;
  d.dv = dx.v;
  return d;
}

}  // namespace genesis::cuda
