// Tests optimizer updates over 20 steps against a double loop of PyTorch's formulas, and norms and clipping.
#include "schema/ops/nn/optimizer.h"

#include <bit>
#include <cmath>

#include "schema/core/halves.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/slice.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr int64_t kSteps = 20;

// One parameter element; m and v are the optimizer's states.
struct Element {
  double p = 0, m = 0, v = 0;
};
using Update = std::function<void(Element&, double g, double lr, int64_t step)>;

double gradient_at(int64_t i, int64_t step) {
  return std::sin(static_cast<double>(3 * i + 7 * step)) * (1 + i % 3);
}
double lr_at(int64_t step) { return 0.05 / static_cast<double>(step); }

using Build = std::function<std::vector<Value>(const std::vector<Value>& p_g_m_v_lr_step)>;

// Runs `build` step by step on a parameter stored as `dtype` with gradients in `gradient_dtype`, and compares with
// the formula.
void check_steps(DType dtype, DType gradient_dtype, int64_t n, const Build& build, const Update& update,
                 double tolerance) {
  const DType state = dtype == DType::f64 ? DType::f64 : DType::f32;
  const auto tensor = [n](DType t, const std::function<double(int64_t)>& f) {
    std::byte* data;
    const Tensor result = Tensor::uninitialized({t, {n}}, &data);
    dispatch(t, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
          reinterpret_cast<T*>(data)[i] = T(static_cast<float>(f(i)));
        else
          reinterpret_cast<T*>(data)[i] = static_cast<T>(f(i));
      }
    });
    return result;
  };
  std::vector<Element> expected(static_cast<size_t>(n));
  const auto start = [](int64_t i) { return std::cos(static_cast<double>(i)); };
  Tensor p = tensor(dtype, start), m = tensor(state, [](int64_t) { return 0.0; }), v = m;
  for (int64_t i = 0; i < n; ++i) expected[static_cast<size_t>(i)].p = p.to_doubles()[static_cast<size_t>(i)];
  for (int64_t step = 1; step <= kSteps; ++step) {
    const Tensor g = tensor(gradient_dtype, [=](int64_t i) { return gradient_at(i, step); });
    const NamedTensors out =
        run_graph({{"p", p},
                   {"g", g},
                   {"m", m},
                   {"v", v},
                   {"lr", Tensor::scalar<float>(static_cast<float>(lr_at(step)))},
                   {"step", Tensor::scalar<int64_t>(step)}},
                  [&](const Inputs& in) {
                    const std::vector<Value> results = build(in.values);
                    std::vector<std::pair<std::string, Value>> named = {{"p1", results[0]}};
                    if (results.size() > 1) named.push_back({"m1", results[1]});
                    if (results.size() > 2) named.push_back({"v1", results[2]});
                    return named;
                  });
    p = out.at("p1");
    if (out.contains("m1")) m = out.at("m1");
    if (out.contains("v1")) v = out.at("v1");
    const auto gradients = g.to_doubles(), got = p.to_doubles();
    for (size_t i = 0; i < expected.size(); ++i) {
      update(expected[i], gradients[i], static_cast<float>(lr_at(step)), step);
      ASSERT_NEAR(got[i], expected[i].p, tolerance) << "element " << i << " after step " << step;
      // A low-precision parameter is rounded after every step.
      if (is_low_precision(dtype)) expected[i].p = got[i];
    }
  }
}

void check_dtypes(const Build& build, const Update& update) {
  check_steps(DType::f32, DType::f32, 37, build, update, 2e-6);
  check_steps(DType::f32, DType::bf16, 5, build, update, 2e-6);
  check_steps(DType::f64, DType::f64, 5, build, update, 1e-12);
  check_steps(DType::bf16, DType::bf16, 600, build, update,
              0.01);  // one rounding of 8 bits, from the same start
  check_steps(DType::f16, DType::f32, 33, build, update, 0.002);
}

void check_sgd(const SgdOptions& o) {
  check_dtypes(
      [=](const std::vector<Value>& x) {
        const auto r = sgd_update(x[0], x[1], o.momentum != 0 ? x[2] : Value{}, x[4], x[5], o);
        return o.momentum != 0 ? std::vector<Value>{r.parameter, r.momentum}
                               : std::vector<Value>{r.parameter};
      },
      [=](Element& e, double g, double lr, int64_t step) {
        g += o.weight_decay * e.p;
        if (o.momentum != 0) {
          e.m = step == 1 ? g : o.momentum * e.m + (1 - o.dampening) * g;
          g = o.nesterov ? g + o.momentum * e.m : e.m;
        }
        e.p -= lr * g;
      });
}

TEST(SgdUpdate, TwentySteps) {
  check_sgd({});
  check_sgd({.weight_decay = 0.1});
  check_sgd({.momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1});
  check_sgd({.momentum = 0.9, .nesterov = true});
}

// Returns the results of one node for two parameters ("all") and of one node each ("one"): parameters, then buffers.
NamedTensors sgd_of_two(const SgdOptions& o, bool scaled, const std::string& device) {
  const auto wave = [](int64_t n, float by) {
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(std::sin(by * static_cast<float>(i + 1)));
    return Tensor::of<float>({n}, values);
  };
  const bool has_buffers = o.momentum != 0;
  const auto build = [&](const Inputs& x) {
    std::vector<std::pair<std::string, Value>> named;
    std::vector<Value> inputs = {x[0], x[1], x[2], x[3], x[6], x[7]};
    if (has_buffers) inputs.insert(inputs.end(), {x[4], x[5]});
    if (scaled) inputs.push_back(x[8]);
    const auto all = emit_node(ops::SgdUpdate{o, scaled, 2}, inputs);
    for (size_t i = 0; i < all.size(); ++i) named.emplace_back("all" + std::to_string(i), all[i]);
    for (int i = 0; i < 2; ++i) {
      const auto one = sgd_update(x[i], x[2 + i], has_buffers ? x[4 + i] : Value{}, x[6], x[7], o,
                                  scaled ? x[8] : Value{});
      named.emplace_back("one" + std::to_string(i), one.parameter);
      if (one.momentum) named.emplace_back("one" + std::to_string(2 + i), one.momentum);
    }
    return named;
  };
  return run_graph({{"p", wave(5, 0.1f)},
                    {"q", wave(20000, 0.2f)},
                    {"g", wave(5, 0.3f)},
                    {"h", wave(20000, 0.4f)},
                    {"m", wave(5, 0.5f)},
                    {"n", wave(20000, 0.6f)},
                    {"lr", Tensor::of<float>({}, {0.3f})},
                    {"step", Tensor::of<int64_t>({}, {3})},
                    {"scale", Tensor::of<float>({}, {0.7f})}},
                   build, {.device = device});
}

// One node for several parameters gives the bits of one node each, without a buffer, with it, and with a scale.
TEST(SgdUpdate, UpdatesSeveralParametersAtOnce) {
  const SgdOptions plain{.weight_decay = 0.1},
      nesterov{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true};
  for (const std::string device : {"cpu", "cuda"})
    for (const SgdOptions& o : {plain, nesterov})
      for (const bool scaled : {false, true}) {
        if (device == "cuda" && !why_no_cuda().empty()) continue;
        const NamedTensors out = sgd_of_two(o, scaled, device);
        for (int i = 0; i < (o.momentum != 0 ? 4 : 2); ++i)
          EXPECT_EQ(out.at("all" + std::to_string(i)).to_doubles(),
                    out.at("one" + std::to_string(i)).to_doubles())
              << device << i;
      }
}

void check_adam(const AdamOptions& o) {
  check_dtypes(
      [=](const std::vector<Value>& x) {
        const auto r = adam_update(x[0], x[1], x[2], x[3], x[4], x[5], o);
        return std::vector<Value>{r.parameter, r.m, r.v};
      },
      [=](Element& e, double g, double lr, int64_t step) {
        if (o.decoupled)
          e.p -= lr * o.weight_decay * e.p;
        else
          g += o.weight_decay * e.p;
        e.m = o.beta1 * e.m + (1 - o.beta1) * g;
        e.v = o.beta2 * e.v + (1 - o.beta2) * g * g;
        const double m = e.m / (1 - std::pow(o.beta1, step)), v = e.v / (1 - std::pow(o.beta2, step));
        e.p -= lr * m / (std::sqrt(v) + o.eps);
      });
}

TEST(AdamUpdate, TwentySteps) {
  check_adam({});
  check_adam({.weight_decay = 0.2});
  check_adam({.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.2, .decoupled = false});
}

TEST(LionUpdate, TwentySteps) {
  const LionOptions o{.weight_decay = 0.1};
  check_dtypes(
      [=](const std::vector<Value>& x) {
        const auto r = lion_update(x[0], x[1], x[2], x[4], o);
        return std::vector<Value>{r.parameter, r.momentum};
      },
      [=](Element& e, double g, double lr, int64_t) {
        const double u = o.beta1 * e.m + (1 - o.beta1) * g;
        e.p -= lr * ((u > 0) - (u < 0) + o.weight_decay * e.p);
        e.m = o.beta2 * e.m + (1 - o.beta2) * g;
      });
}

TEST(LionUpdate, ZeroMovesNothing) {
  const Tensor one = Tensor::of<float>({2}, {1, 1}), zero = Tensor::of<float>({2}, {0, -0.0f});
  const NamedTensors out = run_graph(
      {{"p", one}, {"g", zero}, {"m", zero}, {"lr", Tensor::scalar<float>(0.5f)}}, [](const Inputs& x) {
        return std::vector<std::pair<std::string, Value>>{
            {"y", lion_update(x[0], x[1], x[2], x[3], {}).parameter}};
      });
  EXPECT_EQ(out.at("y").to_doubles(), (std::vector<double>{1, 1}));
}

// Clipping inside the update equals the update of the scaled gradient.
TEST(AdamUpdate, ScalesTheGradientFirst) {
  const Tensor p = Tensor::of<float>({3}, {1, 2, 3}), g = Tensor::of<float>({3}, {4, -8, 16});
  const Tensor half = Tensor::of<float>({3}, {2, -4, 8}), zero = Tensor::of<float>({3}, {0, 0, 0});
  const auto step = [&](const Tensor& gradient, float scale) {
    return run_graph(
        {{"p", p},
         {"g", gradient},
         {"m", zero},
         {"lr", Tensor::scalar<float>(0.1f)},
         {"step", Tensor::scalar<int64_t>(1)},
         {"scale", Tensor::scalar<float>(scale)}},
        [](const Inputs& x) {
          const AdamOptions o{.eps = 1};
          const auto adam = adam_update(x[0], x[1], x[2], x[2], x[3], x[4], o, x[5]);
          const auto lion = lion_update(x[0], x[1], x[2], x[3], {}, x[5]);
          const auto sgd = sgd_update(x[0], x[1], {}, x[3], x[4], {}, x[5]);
          return std::vector<std::pair<std::string, Value>>{
              {"p1", adam.parameter}, {"v1", adam.v}, {"m1", lion.momentum}, {"s1", sgd.parameter}};
        });
  };
  const NamedTensors scaled = step(g, 0.5f), plain = step(half, 1.0f);
  for (const auto& [name, tensor] : plain)
    EXPECT_EQ(scaled.at(name).to_doubles(), tensor.to_doubles()) << name;
}

// A scale that is not finite skips the step whatever the gradient is; a finite one does not.
TEST(OptimizerUpdates, SkipAStepWhoseScaleIsNotFinite) {
  const Tensor p = Tensor::of<float>({3}, {1, 2, 3}), m = Tensor::of<float>({3}, {0.5f, -0.5f, 0});
  const Tensor g = Tensor::of<float>({3}, {INFINITY, NAN, 1}), v = Tensor::of<float>({3}, {1, 2, 0});
  for (const float scale : {INFINITY, -INFINITY, NAN, 0.5f}) {
    const NamedTensors out = run_graph(
        {{"p", p},
         {"g", g},
         {"m", m},
         {"v", v},
         {"lr", Tensor::scalar<float>(0.1f)},
         {"step", Tensor::scalar<int64_t>(3)},
         {"scale", Tensor::scalar<float>(scale)}},
        [](const Inputs& x) {
          const auto adam = adam_update(x[0], x[1], x[2], x[3], x[4], x[5], {.skip_nonfinite = true}, x[6]);
          const auto lion = lion_update(x[0], x[1], x[2], x[4], {.skip_nonfinite = true}, x[6]);
          const SgdOptions with_momentum{.momentum = 0.9, .skip_nonfinite = true};
          const auto sgd = sgd_update(x[0], x[1], x[2], x[4], x[5], with_momentum, x[6]);
          const auto plain = sgd_update(x[0], x[1], {}, x[4], x[5], {.skip_nonfinite = true}, x[6]);
          return std::vector<std::pair<std::string, Value>>{
              {"p1", adam.parameter}, {"m1", adam.m},        {"v1", adam.v},       {"p2", lion.parameter},
              {"m2", lion.momentum},  {"p3", sgd.parameter}, {"m3", sgd.momentum}, {"p4", plain.parameter}};
        });
    for (const auto& [name, tensor] : out) {
      const Tensor& before = name[0] == 'p' ? p : name[0] == 'm' ? m : v;
      if (std::isfinite(scale))
        EXPECT_NE(tensor.to_doubles()[2], before.to_doubles()[2]) << name;
      else
        EXPECT_EQ(tensor.to_doubles(), before.to_doubles()) << name << " " << scale;
    }
  }
}

struct AdamOperands {
  Value parameter, gradient, m, v;
  double weight_decay = 0;
};

// Makes one node. `inputs`: lr, step, scale and the tensors that hold the parameters.
std::vector<Value> update_together(ops::AdamUpdate op, std::vector<Value> inputs,
                                   const std::vector<AdamOperands>& operands) {
  op.has_scale = true;
  for (const AdamOperands& each : operands) op.weight_decays.push_back(each.weight_decay);
  for (const auto field : {&AdamOperands::gradient, &AdamOperands::m, &AdamOperands::v})
    for (const AdamOperands& each : operands) inputs.push_back(each.*field);
  return emit_node(*find_op("adam_update"), to_attributes(op), inputs);
}

// The result is bit-identical to one node per parameter.
TEST(AdamUpdateOfMany, IsTheUpdatesOfItsParameters) {
  const auto tensor = [](int64_t n, float by) {
    std::vector<float> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(by * std::cos(static_cast<float>(i)));
    return Tensor::of<float>({n}, values);
  };
  std::vector<std::pair<std::string, Tensor>> inputs;
  const int64_t sizes[] = {5, 0, 70000};
  for (const int64_t n : sizes)
    for (const char* name : {"p", "g", "m", "v"})
      inputs.emplace_back(name + std::to_string(n), tensor(n, *name == 'v' ? 0.0f : 0.3f));
  inputs.emplace_back("lr", Tensor::scalar<float>(0.1f));
  inputs.emplace_back("step", Tensor::scalar<int64_t>(3));
  inputs.emplace_back("scale", Tensor::scalar<float>(0.5f));
  for (const bool decoupled : {false, true}) {
    const AdamOptions options{.eps = 1e-3, .decoupled = decoupled};
    const auto run = [&](bool together) {
      return run_graph(inputs, [&](const Inputs& x) {
        std::vector<AdamOperands> operands;
        for (int i = 0; i < 12; i += 4) operands.push_back({x[i], x[i + 1], x[i + 2], x[i + 3], 0.1 * i});
        std::vector<AdamResult> results;
        if (together) {
          const auto out = update_together({.eps = options.eps, .decoupled = decoupled},
                                           {x[12], x[13], x[14], x[0], x[4], x[8]}, operands);
          for (size_t i = 0; i < 3; ++i) results.push_back({out[i], out[3 + i], out[6 + i]});
        }
        for (const AdamOperands& o : operands) {
          if (together) break;
          AdamOptions own = options;
          own.weight_decay = o.weight_decay;
          results.push_back(adam_update(o.parameter, o.gradient, o.m, o.v, x[12], x[13], own, x[14]));
        }
        std::vector<std::pair<std::string, Value>> named;
        for (size_t i = 0; i < results.size(); ++i) {
          named.emplace_back("p" + std::to_string(i), results[i].parameter);
          named.emplace_back("m" + std::to_string(i), results[i].m);
          named.emplace_back("v" + std::to_string(i), results[i].v);
        }
        return named;
      });
    };
    const NamedTensors one_by_one = run(false), together = run(true);
    for (const auto& [name, tensor] : one_by_one)
      EXPECT_EQ(together.at(name).to_doubles(), tensor.to_doubles()) << name;
  }
}

Tensor cosines(int64_t n, float by) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(by * std::cos(static_cast<float>(i)));
  return Tensor::of<float>({n}, values);
}

// Returns the upper and the lower halves of all parameters, one parameter after another.
std::pair<Tensor, Tensor> halves_of(const std::vector<Tensor>& parameters) {
  std::vector<bf16> upper;
  std::vector<int16_t> lower;
  for (const Tensor& parameter : parameters)
    for (float value : parameter.as<float>()) {
      const Halves halves = split_halves(std::bit_cast<uint32_t>(value));
      upper.emplace_back().bits = halves.upper;
      lower.push_back(static_cast<int16_t>(halves.lower));
    }
  const auto n = static_cast<int64_t>(upper.size());
  return {Tensor::of<bf16>({n}, upper), Tensor::of<int16_t>({n}, lower)};
}

// Parameters stored one after another in an upper and a lower half.
struct AdamHalves {
  Value upper, lower;
  std::vector<AdamOperands> parameters;  // and each as a separate f32
};

using Named = std::vector<std::pair<std::string, Value>>;

void add_result(Named& named, const std::string& id, Value parameter, Value m, Value v) {
  named.insert(named.end(), {{"p" + id, parameter}, {"m" + id, m}, {"v" + id, v}});
}

Named plain_updates(const std::vector<AdamHalves>& groups, Value lr, Value step, AdamOptions options,
                    Value scale) {
  Named named;
  for (const AdamHalves& group : groups)
    for (const AdamOperands& o : group.parameters) {
      options.weight_decay = o.weight_decay;
      const AdamResult r = adam_update(o.parameter, o.gradient, o.m, o.v, lr, step, options, scale);
      add_result(named, std::to_string(named.size()), r.parameter, r.m, r.v);
    }
  return named;
}

Named halved_updates(const std::vector<AdamHalves>& groups, Value lr, Value step, const AdamOptions& options,
                     Value scale) {
  ops::AdamUpdate op{.eps = options.eps, .skip_nonfinite = options.skip_nonfinite};
  std::vector<Value> inputs = {lr, step, scale};
  std::vector<AdamOperands> operands;
  for (const auto half : {&AdamHalves::upper, &AdamHalves::lower})
    for (const AdamHalves& group : groups) inputs.push_back(group.*half);
  for (const AdamHalves& group : groups) {
    op.parameters_per_half.push_back(static_cast<int64_t>(group.parameters.size()));
    operands.insert(operands.end(), group.parameters.begin(), group.parameters.end());
  }
  const std::vector<Value> out = update_together(op, inputs, operands);
  Named named;
  size_t m = 2 * groups.size();
  for (size_t i = 0; i < groups.size(); ++i) {
    Dim row(0);
    for (size_t part = 0; part < groups[i].parameters.size(); ++part, ++m) {
      const Dim n = out[m].dim(0);
      add_result(named, std::to_string(named.size()),
                 join_halves(narrow(out[i], 0, row, n), narrow(out[groups.size() + i], 0, row, n)), out[m],
                 out[operands.size() + m]);
      row = row + n;
    }
  }
  return named;
}

// Parameters in halves give the same bits as separate f32 parameters. Covers sizes that packs divide or not, and a
// skipped step, on every device of the machine.
TEST(AdamUpdateHalves, IsTheUpdatesOfItsParameters) {
  const std::vector<std::vector<int64_t>> sizes = {{8, 16}, {70000}, {3, 5, 1}};
  for (const bool aligned : {true, false})
    for (const float scale : {0.5f, INFINITY})
      for (const char* device : {"cpu", "cuda"}) {
        if (device == std::string("cuda") && !why_no_cuda().empty()) continue;
        std::vector<std::pair<std::string, Tensor>> inputs = {{"lr", Tensor::scalar<float>(0.1f)},
                                                              {"step", Tensor::scalar<int64_t>(3)},
                                                              {"scale", Tensor::scalar<float>(scale)}};
        const auto add = [&](Tensor tensor) {
          inputs.emplace_back(std::to_string(inputs.size()), std::move(tensor));
        };
        for (size_t i = 0; i < sizes.size() - aligned; ++i) {
          std::vector<Tensor> parameters;
          for (int64_t n : sizes[i])
            parameters.push_back(cosines(n, 0.3f + 0.1f * static_cast<float>(n % 7)));
          const auto [upper, lower] = halves_of(parameters);
          add(upper), add(lower);
          for (const Tensor& p : parameters)
            add(p), add(cosines(p.numel(), 0.7f)), add(cosines(p.numel(), 0.1f)),
                add(Tensor::zeros(p.type()));
        }
        const auto run = [&](const auto& updates) {
          return run_graph(inputs,
                           [&](const Inputs& x) {
                             std::vector<AdamHalves> groups;
                             size_t at = 3;
                             for (size_t i = 0; i < sizes.size() - aligned; ++i) {
                               groups.push_back({x[at], x[at + 1], {}});
                               at += 2;
                               for (int64_t n : sizes[i]) {
                                 groups.back().parameters.push_back({x[at], x[at + 1], x[at + 2], x[at + 3],
                                                                     0.1 * static_cast<double>(n % 3)});
                                 at += 4;
                               }
                             }
                             return updates(groups, x[0], x[1], {.eps = 1e-3, .skip_nonfinite = true}, x[2]);
                           },
                           {.device = device});
        };
        const NamedTensors plain = run(plain_updates), halved = run(halved_updates);
        EXPECT_EQ(plain.size(), aligned ? 9u : 18u);
        for (const auto& [name, tensor] : plain)
          EXPECT_EQ(halved.at(name).to_doubles(), tensor.to_doubles()) << name << " on " << device;
      }
}

TEST(AdamUpdateHalves, RefusesWhatDoesNotFit) {
  const TensorType upper{DType::bf16, {4}}, lower{DType::i16, {4}}, f32{DType::f32, {4}}, lr{DType::f32, {}},
      step{DType::i64, {}};
  const auto infer = [&](std::vector<TensorType> operands, std::vector<int64_t> per_half,
                         std::vector<double> weight_decays = {0}) {
    operands.insert(operands.begin(), {lr, step});
    const ops::AdamUpdate op{.weight_decays = std::move(weight_decays),
                             .parameters_per_half = std::move(per_half)};
    return infer_types(*find_op("adam_update"), to_attributes(op), operands);
  };
  EXPECT_EQ(infer({upper, lower, f32, f32, f32}, {1})[0].to_string(), "bf16[4]");
  expect_error([&] { infer({f32, lower, f32, f32, f32}, {1}); }, {"halves", "f32[4]"});
  expect_error([&] { infer({upper, lower, f32, upper, f32}, {1}); }, {"m must be f32[4]"});
  const TensorType larger{DType::f32, {5}};
  expect_error([&] { infer({upper, lower, larger, larger, larger}, {1}); }, {"bf16[4]", "5 elements"});
  for (const int64_t held : {int64_t{0}, int64_t{-1}, int64_t{2}, INT64_MIN, INT64_MAX})
    expect_error([&] { infer({upper, lower, f32, f32, f32}, {held}); }, {"are to hold", "1 are left"});
  expect_error(
      [&] {
        infer({upper, lower, f32, f32, f32, f32, f32, f32}, {1}, {0, 0});
      },
      {"hold 1 parameters, 2 were given"});
  expect_error([&] { infer({upper, lower, f32, f32, f32}, {1}, {}); }, {"0 parameters"});
  expect_error([&] { infer({upper, lower, f32, f32, f32}, {1, 1}); }, {"ask for 9 inputs"});
}

TEST(GlobalNorm, OneByOneOrTogether) {
  const NamedTensors out = run_graph(
      {{"a", Tensor::of<float>({3}, {1, 2, 2})}, {"b", Tensor::of<float>({1}, {4})}}, [](const Inputs& x) {
        return std::vector<std::pair<std::string, Value>>{{"y", global_norm({x[0], x[1]})},
                                                          {"z", global_norm({x[0], x[1]}, true)}};
      });
  EXPECT_EQ(out.at("y").to_doubles(), std::vector<double>{5});
  EXPECT_EQ(out.at("z").to_doubles(), std::vector<double>{5});
}

TEST(GlobalNorm, OfSeveralGradients) {
  check({.name = "global_norm",
         .inputs = {real({3, 5}), real({40}), real({})},
         .build =
             [](const Inputs& x) {
               return Outputs{global_norm({x[0], x[1], x[2]})};
             },
         .reference =
             [](const Refs& x) {
               Ref y = ref_zeros({});
               for (const Ref& r : x)
                 for (double v : r.data) y[0] += v * v;
               y[0] = std::sqrt(y[0]);
               return Refs{y};
             },
         .f64 = false});  // the norm is f32
}

// The sum is computed in several chunks, and every element counts once.
TEST(GlobalNorm, OfAManyElements) {
  constexpr int64_t n = 700001;
  const Tensor x = Tensor::of<float>({n}, std::vector<float>(n, 2.0f));
  const NamedTensors out = run_graph({{"x", x}}, [](const Inputs& in) {
    return std::vector<std::pair<std::string, Value>>{{"y", global_norm({in[0]})}};
  });
  EXPECT_FLOAT_EQ(static_cast<float>(out.at("y").to_doubles()[0]),
                  static_cast<float>(2 * std::sqrt(double{n})));
}

TEST(ClipScale, OnlyShrinks) {
  const auto scale_of = [](float norm) {
    return run_graph({{"norm", Tensor::scalar<float>(norm)}},
                     [](const Inputs& x) {
                       return std::vector<std::pair<std::string, Value>>{{"y", clip_scale(x[0], 2)}};
                     })
        .at("y")
        .to_doubles()[0];
  };
  EXPECT_EQ(scale_of(1), 1);
  EXPECT_EQ(scale_of(0), 1);
  EXPECT_NEAR(scale_of(8), 0.25, 1e-6);
  EXPECT_TRUE(std::isnan(scale_of(NAN)));
}

TEST(ClipByValue, LimitsBothSides) {
  const NamedTensors out = run_graph({{"x", Tensor::of<float>({3}, {-3, 0.5, 3})}}, [](const Inputs& x) {
    return std::vector<std::pair<std::string, Value>>{{"y", clip_by_value(x[0], 1)}};
  });
  EXPECT_EQ(out.at("y").to_doubles(), (std::vector<double>{-1, 0.5, 1}));
}

TEST(OptimizerUpdates, RefuseWhatDoesNotFit) {
  const TensorType p{DType::bf16, {3}}, state{DType::f32, {3}}, other{DType::f32, {4}}, lr{DType::f32, {}};
  const TensorType step{DType::i64, {}};
  const auto adam = [](const Inputs& x) {
    return Outputs{adam_update(x[0], x[1], x[2], x[3], x[4], x[5], {}).parameter};
  };
  expect_error([&] { infer_case({p, other, state, state, lr, step}, adam); }, {"gradient", "[3]", "f32[4]"});
  expect_error([&] { infer_case({p, p, p, state, lr, step}, adam); }, {"m must be f32[3]", "bf16[3]"});
  expect_error(
      [&] {
        infer_case({p, p, state, state, step, step}, adam);
      },
      {"lr", "f32 or f64 scalar", "i64[]"});
  expect_error(
      [&] {
        infer_case({p, p, state, state, lr, lr}, adam);
      },
      {"step", "i64 or i32 scalar", "f32[]"});
  const auto nesterov = [](const Inputs& x) {
    return Outputs{sgd_update(x[0], x[1], x[2], x[3], x[4], {.nesterov = true}).parameter};
  };
  expect_error([&] { infer_case({p, p, state, lr, step}, nesterov); }, {"Nesterov", "momentum 0"});
}

}  // namespace
}  // namespace genesis::testing
