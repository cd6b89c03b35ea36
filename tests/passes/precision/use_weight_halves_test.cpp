// Tests which weights are kept as halves, and how a graph that reads and updates them changes.
#include "passes/precision/passes.h"

#include "passes/memory/make_plan.h"
#include "schema/core/float16.h"
#include "schema/encoding/quantized_formats.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kStates = R"(
state @a: f32[2,8] parameter trainable
state @b: f32[4,8] parameter trainable
state @c: f32[8,8] parameter trainable
state @am: f32[2,8] optimizer
state @bm: f32[4,8] optimizer
state @cm: f32[8,8] optimizer
state @av: f32[2,8] optimizer
state @bv: f32[4,8] optimizer
state @cv: f32[8,8] optimizer
)";
const std::string kInputs = "g: bf16[2,8], h: bf16[4,8], i: bf16[8,8], lr: f32[], step: i64[], scale: f32[]";
const std::string kCasts =
    "%wa = cast(@a) {dtype=bf16}\n %wb = cast(@b) {dtype=bf16}\n %wc = cast(@c) {dtype=bf16}\n"
    "%w = concat(%wa, %wb) {axis=-2}\n";
const std::string kUpdates =
    "%ua = adam_update(lr, step, scale, @a, g, @am, @av) {has_scale=true, weight_decays=(0.5)}\n"
    "%uc = adam_update(lr, step, scale, @c, i, @cm, @cv) {has_scale=true, weight_decays=(0.0)}\n"
    "%ub = adam_update(lr, step, scale, @b, h, @bm, @bv) {has_scale=true, weight_decays=(0.0)}\n";
const std::string kResults =
    "return w = %w\n return c = %wc\n update @a = %ua\n update @b = %ub\n update @c = %uc\n"
    "update @am = %ua:1\n update @bm = %ub:1\n update @cm = %uc:1\n"
    "update @av = %ua:2\n update @bv = %ub:2\n update @cv = %uc:2\n";

std::string model_text(const std::string& body, const std::string& more = "") {
  return kStates + ("entry train(" + kInputs + ") {\n" + body + "\n}\n" + more);
}

const std::string kTraining = model_text(kCasts + kUpdates + kResults);

// Returns the groups by name, as "a b | c".
std::string found(const std::string& text) {
  const auto model = parse_text(text);
  std::string names;
  for (const StoredGroup& group : find_stored_weights(*model).groups) {
    names += names.empty() ? "" : " | ";
    for (int32_t member : group.members)
      names += (member == group.members[0] ? "" : " ") + model->state(member).name;
  }
  return names;
}

struct Rewritten {
  std::unique_ptr<Model> model;
  std::string text;
  Plan plan;
};

Rewritten rewritten(const std::string& text, const std::string& entry, bool together = false) {
  Rewritten result{parse_text(text), {}, {}};
  const StateStorage storage = find_stored_weights(*result.model);
  add_parts(*result.model, storage);
  const Target target = together ? large_gpu() : Target{};
  const Graph graph =
      use_weight_halves(std::as_const(*result.model).entry(entry), {.target = &target, .storage = &storage});
  verify(graph);
  result.text = to_text(graph);
  result.plan = make_plan(graph, {});
  return result;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(UseWeightHalves, TakesWhatIsCastAndUpdated) {
  EXPECT_EQ(found(kTraining), "a b | c") << "what a concatenation joins lies together";
}

TEST(UseWeightHalves, LeavesWhatIsReadAsF32) {
  EXPECT_EQ(found(model_text(kCasts + kUpdates + kResults + "return a = @a\n")), "b | c");
  EXPECT_EQ(found(model_text(kCasts + kUpdates + "%n = neg(@c)\n" + kResults + "return n = %n\n")), "a b");
  EXPECT_EQ(found(model_text(kCasts + kUpdates + kResults + "return ua = %ua\n")), "b | c")
      << "the new value is read";
  EXPECT_EQ(found(model_text("%wc = neg(i)\n %w = neg(g)\n" + kUpdates + kResults)), "") << "nothing is cast";
}

TEST(UseWeightHalves, LeavesWhatIsUpdatedOtherwise) {
  const std::string reset = "entry reset(z: f32[8,8]) {\n%n = neg(z)\nupdate @c = %n\n}\n";
  EXPECT_EQ(found(kTraining + reset), "a b");
  const std::string f16 = "%wc = cast(@c) {dtype=f16}\n";
  std::string text = kTraining;
  text.replace(text.find("%wc = cast"), std::string("%wc = cast(@c) {dtype=bf16}\n").size(), f16);
  EXPECT_EQ(found(text), "a b");
}

TEST(UseWeightHalves, JoinsOnlyWhatIsUpdatedTogether) {
  std::string text = kTraining;
  text.insert(text.find("has_scale=true", text.find("@bm, @bv")), "beta1=0.5, ");
  EXPECT_EQ(found(text), "a | b | c");
}

TEST(UseWeightHalves, ReadsHalvesAndUpdatesThem) {
  const Rewritten train = rewritten(kTraining, "train");
  EXPECT_TRUE(has(train.text, "return w = @a.upper\n")) << train.text;
  EXPECT_TRUE(has(train.text, "return c = @c.upper\n")) << train.text;
  EXPECT_TRUE(has(train.text,
                  "adam_update(lr, step, scale, @a.upper, @a.lower, g, h, @am, @bm, @av, @bv) "
                  "{has_scale=true, parameters_per_half=(2), weight_decays=(0.5, 0.0)}"))
      << train.text;
  EXPECT_TRUE(has(train.text,
                  "adam_update(lr, step, scale, @c.upper, @c.lower, i, @cm, @cv) "
                  "{has_scale=true, parameters_per_half=(1), weight_decays=(0.0)}"))
      << train.text;
  EXPECT_FALSE(has(train.text, "cast") || has(train.text, "@a ") || has(train.text, "@a,")) << train.text;
  EXPECT_TRUE(has(rewritten(kTraining, "train", true).text, "parameters_per_half=(2, 1)"))
      << "one node where that pays";
}

TEST(UseWeightHalves, JoinsForWhoReadsF32) {
  const std::string more =
      "entry look(x: f32[4,8]) {\n%wb = cast(@b) {dtype=bf16}\n%n = add(@b, x)\n"
      "%m = mul(@b, x)\nreturn wb = %wb\nreturn n = %n\nreturn m = %m\nreturn a = @a\n}\n";
  const std::string text = rewritten(kTraining + more, "look").text;
  EXPECT_EQ(text, R"(entry look(x: f32[4,8]) {
  %slice = slice(@a.upper) {length=[4], start=[2]} : bf16[4,8]
  %slice_1 = slice(@a.upper) {length=[4], start=[2]} : bf16[4,8]
  %slice_2 = slice(@a.lower) {length=[4], start=[2]} : i16[4,8]
  %join_halves = join_halves(%slice_1, %slice_2) : f32[4,8]
  %n = add(%join_halves, x) : f32[4,8]
  %m = mul(%join_halves, x) : f32[4,8]
  %slice_3 = slice(@a.upper) {length=[2]} : bf16[2,8]
  %slice_4 = slice(@a.lower) {length=[2]} : i16[2,8]
  %join_halves_1 = join_halves(%slice_3, %slice_4) : f32[2,8]
  return wb = %slice
  return n = %n
  return m = %m
  return a = %join_halves_1
}
)");
}

TEST(UseWeightHalves, LeavesOthersAlone) {
  const std::string more = "entry other(x: f32[4,8]) {\n%n = neg(x)\nreturn n = %n\n}\n";
  const auto model = parse_text(kTraining + more);
  const StateStorage storage = find_stored_weights(*model);
  EXPECT_FALSE(updates_stored(model->entry("other"), storage));
  EXPECT_TRUE(updates_stored(model->entry("train"), storage));
  EXPECT_EQ(to_text(use_weight_halves(model->entry("train"), {})),
            to_text(std::as_const(*model).entry("train")));
}

// Weights are written where they were read: there is no copy, and the arena has only values computed from them.
TEST(UseWeightHalves, UpdatesInPlace) {
  const std::string reads = "%p = linear(g, %w)\n %q = linear(i, %wc)\n";
  const std::string text = model_text(kCasts + kUpdates + reads + "return p = %p\n return q = %q\n" +
                                      kResults.substr(kResults.find("update")));
  for (const bool together : {false, true}) {
    const Plan plan = rewritten(text, "train", together).plan;
    EXPECT_TRUE(plan.state_copies.empty());
    EXPECT_LE(plan.arena_bytes, 64 + 128) << "p and q";
  }
}

// Passes ask a format for its properties, not for its name.
TEST(UseWeightHalves, AFormatSaysWhichPartIsTheValuesRounded) {
  const StateFormat& format = bf16_halves_format();
  ASSERT_EQ(format.rounded_part(), 0u);
  const std::vector<float> values = {1, -3.14159f, 1e-20f, 6e4f, 0, 0.1f, 7, -2};
  const EncodedValues encoded = encode_tensor(format, Tensor::of<float>({8}, values));
  const std::vector<double> rounded = encoded.parts[0].to_doubles();
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(rounded[i], static_cast<double>(static_cast<float>(bf16(values[i])))) << values[i];
  for (size_t part = 0; part < format.parts.size(); ++part)
    EXPECT_EQ(format.part_bytes(part, format.values_apart) % 16, 0);
  EXPECT_EQ(plain_format(DType::f32)->rounded_part(), std::nullopt);
  for (const StateFormat* quantized : quantized_formats())
    EXPECT_EQ(quantized->rounded_part(), std::nullopt) << quantized->name;
}

}  // namespace
}  // namespace genesis::passes
