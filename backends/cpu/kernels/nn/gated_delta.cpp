// gated_delta, mamba2 and their gradients on the CPU: a task computes one head of one batch entry, token by token. The two ops differ in
// one thing: gated_delta subtracts from v what the state already has for k (`kCorrects`). The names here are those of gated_delta;
// in mamba2, q is c, k is b, v is x and beta is the step.
#include "schema/ops/nn/gated_delta.h"

#include <cstring>

#include "backends/common/delta_shape.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

// A head's operands at a token.
template <class T>
struct Token {
  const T *q, *k, *v;
  T decay, beta;
};

template <class T>
Token<T> token_of(const KernelContext& c, const DeltaShape& s, int64_t head, int64_t t) {
  const int64_t at = s.token(head / s.heads, t, head % s.heads),
                key = s.key_token(head / s.heads, t, head % s.heads);
  return {c.input(0).as<const T>() + key * s.keys, c.input(1).as<const T>() + key * s.keys,
          c.input(2).as<const T>() + at * s.values, c.input(3).as<const T>()[at],
          c.input(4).as<const T>()[at]};
}

// Sets sums[j] = the product of x [keys] with column j of a state.
template <class T>
void times_state(const DeltaShape& s, const T* x, const T* state, T* sums) {
  std::fill(sums, sums + s.values, T(0));
  for (int64_t i = 0; i < s.keys; ++i)
    for (int64_t j = 0; j < s.values; ++j) sums[j] += x[i] * state[i * s.values + j];
}

// Computes u and the state after the token; `from` and `to` may be the same memory. A decay of 0 forgets values that are not finite,
// too.
template <bool kCorrects, class T>
void advance(const DeltaShape& s, const Token<T>& x, const T* from, T* to, T* u) {
  if (x.decay == 0)
    std::fill(to, to + s.state(), T(0));
  else
    for (int64_t i = 0; i < s.state(); ++i) to[i] = x.decay * from[i];
  if (kCorrects) times_state(s, x.k, to, u);
  for (int64_t j = 0; j < s.values; ++j) u[j] = x.beta * (kCorrects ? x.v[j] - u[j] : x.v[j]);
  for (int64_t i = 0; i < s.keys; ++i)
    for (int64_t j = 0; j < s.values; ++j) to[i * s.values + j] += x.k[i] * u[j];
}

template <class T>
void begin(const DeltaShape& s, const T* state, int64_t head, T* to) {
  if (state)
    std::copy_n(state + head * s.state(), s.state(), to);
  else
    std::fill(to, to + s.state(), T(0));
}

// Returns the last token of a head that is no padding; -1 if there is none.
template <class T>
int64_t last_token(const KernelContext& c, const DeltaShape& s, int64_t head) {
  int64_t t = s.time - 1;
  for (; t >= 0; --t) {
    const int64_t at = s.token(head / s.heads, t, head % s.heads);
    if (c.input(3).as<const T>()[at] != 1 || c.input(4).as<const T>()[at] != 0) break;
  }
  return t;
}

template <bool kCorrects, class T>
void run_forward(const KernelContext& c) {
  const DeltaShape s = DeltaShape::of(c.input(0), c.input(2));
  const T* initial = c.num_inputs() > 5 ? c.input(5).as<const T>() : nullptr;
  parallel_chunks(s.batch * s.heads, [&](int64_t head) {
    T* u = reinterpret_cast<T*>(c.scratch) + head * s.values;
    T *before = c.output(1).as<T>() + head * s.state(), *state = c.output(2).as<T>() + head * s.state();
    begin(s, initial, head, state);
    const int64_t last = last_token<T>(c, s, head);
    if (last < 0) std::copy_n(state, s.state(), before);
    for (int64_t t = 0; t < s.time; ++t) {
      if (t == last) std::copy_n(state, s.state(), before);
      const int64_t at = s.token(head / s.heads, t, head % s.heads);
      const Token<T> x = token_of<T>(c, s, head, t);
      advance<kCorrects>(s, x, state, state, u);
      times_state(s, x.q, state, c.output(0).as<T>() + at * s.values);
    }
  });
}

// The gradient of one head.
template <bool kCorrects, class T>
struct Backward {
  const KernelContext& c;
  DeltaShape s;
  int64_t head;
  T *starts, *states, *gradient, *u, *du;  // scratch memory
  T *q_gradients, *k_gradients;  // [batch, time, heads, keys]: results, or scratch memory to be summed

  Backward(const KernelContext& context, const DeltaShape& shape, int64_t number)
      : c(context), s(shape), head(number) {
    starts = reinterpret_cast<T*>(c.scratch) + head * s.gradient_scratch();
    states = starts + s.chunks() * s.state();
    gradient = states + s.chunk() * s.state();
    u = gradient + s.state();
    du = u + s.values;
    T* shares = reinterpret_cast<T*>(c.scratch) + s.batch * s.heads * s.gradient_scratch();
    const bool are_results = !s.has_shares();
    q_gradients = are_results ? c.output(0).as<T>() : shares;
    k_gradients = are_results ? c.output(1).as<T>() : shares + s.shares_of_heads() / 2;
  }

  int64_t token(int64_t t) const { return s.token(head / s.heads, t, head % s.heads); }

  void run() {
    keep_starts();
    std::fill(gradient, gradient + s.state(), T(0));
    for (int64_t first = (s.chunks() - 1) * s.chunk(); first >= 0; first -= s.chunk()) {
      const int64_t end = std::min(first + s.chunk(), s.time);
      const T* from = starts + first / s.chunk() * s.state();
      for (int64_t t = first; t < end; ++t) {
        T* to = states + (t - first) * s.state();
        advance<kCorrects>(s, token_of<T>(c, s, head, t), from, to, u);
        from = to;
      }
      for (int64_t t = end - 1; t >= first; --t)
        retreat(t, t == first ? starts + first / s.chunk() * s.state() : states + (t - first - 1) * s.state(),
                states + (t - first) * s.state());
    }
    std::copy_n(gradient, s.state(), c.output(5).as<T>() + head * s.state());
  }

  // Stores the state before each chunk.
  void keep_starts() {
    begin(s, c.input(5).as<const T>(), head, gradient);
    for (int64_t t = 0; t < s.time; ++t) {
      if (t % s.chunk() == 0) std::copy_n(gradient, s.state(), starts + t / s.chunk() * s.state());
      advance<kCorrects>(s, token_of<T>(c, s, head, t), gradient, gradient, u);
    }
  }

  // Computes the gradients of token t from that of the state after it, and replaces this one by that of the state before.
  void retreat(int64_t t, const T* before, const T* after) {
    const int64_t at = token(t);
    const Token<T> x = token_of<T>(c, s, head, t);
    const T* dy = c.input(6).as<const T>() + at * s.values;
    T *dq = q_gradients + at * s.keys, *dk = k_gradients + at * s.keys,
      *dv = c.output(2).as<T>() + at * s.values;
    for (int64_t i = 0; i < s.keys; ++i) {
      T sum = 0;
      for (int64_t j = 0; j < s.values; ++j) {
        sum += after[i * s.values + j] * dy[j];
        gradient[i * s.values + j] += x.q[i] * dy[j];
      }
      dq[i] = sum;
    }
    times_state(s, x.k, gradient, du);              // the gradient of u, which becomes that of beta (v - k S)
    if (kCorrects) times_state(s, x.k, before, u);  // k S, but for the decay
    T dbeta = 0, ddecay = 0;
    for (int64_t j = 0; j < s.values; ++j) {
      const T miss = x.v[j] - (!kCorrects || x.decay == 0 ? T(0) : x.decay * u[j]);
      dbeta += du[j] * miss;
      u[j] = x.beta * miss;
      dv[j] = x.beta * du[j];
    }
    for (int64_t i = 0; i < s.keys; ++i) {
      T sum = 0;
      for (int64_t j = 0; j < s.values; ++j) {
        T& g = gradient[i * s.values + j];
        const T old = before[i * s.values + j], kept = x.decay == 0 ? T(0) : x.decay * old;
        sum += g * u[j] - (kCorrects ? kept * dv[j] : T(0));
        if (kCorrects) g -= x.k[i] * dv[j];
        ddecay += g * old;
        g *= x.decay;
      }
      dk[i] = sum;
    }
    c.output(3).as<T>()[at] = ddecay;
    c.output(4).as<T>()[at] = dbeta;
  }
};

// Sets each of the `groups` vectors of a token to the sum of those of its heads.
template <class T>
void sum_heads(const DeltaShape& s, const T* of_heads, T* of_groups) {
  const int64_t each = s.groups == 0 ? 0 : s.heads / s.groups;
  parallel_chunks(s.batch * s.time, [&](int64_t token) {
    for (int64_t group = token * s.groups; group < (token + 1) * s.groups; ++group) {
      T* sum = of_groups + group * s.keys;
      std::fill(sum, sum + s.keys, T(0));
      for (int64_t head = group * each; head < (group + 1) * each; ++head)
        for (int64_t i = 0; i < s.keys; ++i) sum[i] += of_heads[head * s.keys + i];
    }
  });
}

template <bool kCorrects, class T>
void run_backward(const KernelContext& c) {
  const DeltaShape s = DeltaShape::of(c.input(0), c.input(2));
  parallel_chunks(s.batch * s.heads, [&](int64_t head) { Backward<kCorrects, T>(c, s, head).run(); });
  if (!s.has_shares()) return;
  const T* shares = reinterpret_cast<T*>(c.scratch) + s.batch * s.heads * s.gradient_scratch();
  sum_heads(s, shares, c.output(0).as<T>());
  sum_heads(s, shares + s.shares_of_heads() / 2, c.output(1).as<T>());
}

template <bool kCorrects>
void run_tokens(const KernelContext& c) {
  c.output().dtype == DType::f64 ? run_forward<kCorrects, double>(c) : run_forward<kCorrects, float>(c);
}
template <bool kCorrects>
void run_gradient(const KernelContext& c) {
  c.output().dtype == DType::f64 ? run_backward<kCorrects, double>(c) : run_backward<kCorrects, float>(c);
}

int64_t forward_scratch(const KernelQuery& query) {
  const DeltaShape s = DeltaShape::of(query.inputs[0], query.inputs[2]);
  return s.batch * s.heads * s.values * static_cast<int64_t>(size_of(query.inputs[0].dtype));
}

int64_t backward_scratch(const KernelQuery& query) {
  const DeltaShape s = DeltaShape::of(query.inputs[0], query.inputs[2]);
  return s.all_gradient_scratch() * static_cast<int64_t>(size_of(query.inputs[0].dtype));
}

constexpr OpKernel kKernels[] = {
    {"gated_delta", {.name = "tokens", .run = run_tokens<true>, .scratch_bytes = forward_scratch}},
    {"gated_delta_grad", {.name = "tokens", .run = run_gradient<true>, .scratch_bytes = backward_scratch}},
    {"mamba2", {.name = "tokens", .run = run_tokens<false>, .scratch_bytes = forward_scratch}},
    {"mamba2_grad", {.name = "tokens", .run = run_gradient<false>, .scratch_bytes = backward_scratch}}};

}  // namespace

std::span<const OpKernel> gated_delta_kernels() { return kKernels; }

}  // namespace genesis::cpu
