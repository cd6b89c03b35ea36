// Tests which weights are quantized and why others are not, and how graphs that read them change.
#include "passes/precision/quantize.h"

#include "passes/precision/passes.h"
#include "schema/encoding/quantized_formats.h"
#include "tests/passes/passes_test_util.h"
#include "schema/graph/state_storage.h"

namespace genesis::passes {
namespace {

constexpr const char* kModel = R"(
state @table: f32[8,64] parameter trainable
state @up: f32[96,64] parameter trainable
state @odd: f32[33,96] parameter trainable
state @down: f32[64,33] parameter trainable
state @head: f32[8,64] parameter trainable
state @other: f32[8,64] parameter trainable
entry f(tokens: i64[rows]) {
  %x = embedding(tokens, @table)
  %h = linear(%x, @up)
  %o = linear(%h, @odd)
  %d = linear(%o, @down)
  %sum = add(%d, %x)
  %logits = matmul(%sum, @head) {transpose_b=true}
  %t = mul(@other, @other)
  return logits = %logits
  return t = %t
}
)";

std::string names(const QuantizeReport& report) {
  std::string text;
  for (const std::string& name : report.quantized) text += name + " ";
  return text;
}

std::string error_of(Model& model, const QuantizeOptions& options) {
  try {
    quantize(model, options);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

// Tables and heads that do not get the format of the others can have q8.
TEST(Quantize, KeepsTablesAndHeadsInQ8) {
  auto model = parse_text(kModel);
  const QuantizeReport report = quantize(*model, {.format = WeightFormat::kQ4, .tables_as_q8 = true});
  EXPECT_EQ(names(report), "table up odd head ");
  EXPECT_EQ(report.in_q8, (std::vector<std::string>{"table", "head"}));
  for (const State& state : model->states()) {
    if (!state.encoded) continue;
    EXPECT_EQ(state.encoded.format->name, state.name == "table" || state.name == "head" ? "q8" : "q4") << state.name;
  }
  verify(*model);
  auto mixed = parse_text(kModel);
  quantize(*mixed, {.format = WeightFormat::kQ4m, .tables_as_q8 = true, .as_q8 = {"o*"}});
  EXPECT_EQ(mixed->state(mixed->find_state("odd")).encoded.format->name, "q8");
  EXPECT_EQ(mixed->state(mixed->find_state("up")).encoded.format->name, "q4m");
  auto all = parse_text(kModel);
  EXPECT_TRUE(
      quantize(*all, {.format = WeightFormat::kQ4, .embedding = true, .head = true, .tables_as_q8 = true}).in_q8.empty());
}

TEST(Quantize, TakesWeightsOfProducts) {
  auto model = parse_text(kModel);
  const QuantizeReport report = quantize(*model, {});
  EXPECT_EQ(names(report), "up odd ");
  ASSERT_EQ(report.kept.size(), 2u);
  EXPECT_EQ(report.kept[0].name, "down");
  EXPECT_NE(report.kept[0].reason.find("33 values, which is no multiple of 32"), std::string::npos);
  EXPECT_EQ(report.kept[1].name, "head");
  EXPECT_NE(report.kept[1].reason.find("--quantize-head"), std::string::npos);
  EXPECT_EQ(report.bytes_before, (96 * 64 + 33 * 96) * 4);
  EXPECT_EQ(report.bytes_after, (96 * 64 + 33 * 96) * 34 / 32);
  EXPECT_FALSE(model->state(1).trainable);
  EXPECT_TRUE(model->state(0).trainable);
  verify(*model);
}

TEST(Quantize, TakesTablesAndHeadsWhereAsked) {
  auto model = parse_text(kModel);
  EXPECT_EQ(names(quantize(*model, {.format = WeightFormat::kQ4, .embedding = true, .head = true})),
            "table up odd head ");
  EXPECT_EQ(error_of(*model, {.embedding = true, .head = true})
                .find("there is nothing to quantize: 'table' stays, it "
                      "is kept as q4 already"),
            0u);
}

// A tied table is quantized only if both its uses may be.
TEST(Quantize, TakesATiedTableWhenBothUsesMay) {
  const std::string tied = R"(
state @table: f32[8,64] parameter
entry f(tokens: i64[rows]) {
  %x = embedding(tokens, @table)
  %logits = linear(%x, @table)
  return logits = %logits
}
)";
  for (const bool embedding : {false, true})
    for (const bool head : {false, true}) {
      auto model = parse_text(tied);
      EXPECT_EQ(error_of(*model, {.embedding = embedding, .head = head}).empty(), embedding && head);
    }
}

TEST(Quantize, RefusesWhatIsTrainedAndWhatIsNoNumber) {
  auto trained = parse_text(R"(
state @w: f32[4,32] parameter trainable
state @w2: f32[3,4] parameter
entry step(x: f32[2,32]) {
  %y = linear(x, @w)
  %z = linear(%y, @w2)
  %n = add(@w, @w)
  return z = %z
  update @w = %n
}
)");
  EXPECT_NE(error_of(*trained, {}).find("entry point 'step' trains 'w'"), std::string::npos);
  auto model = parse_text(kModel);
  std::vector<float> values(96 * 64, 1.0f);
  values[100] = std::numeric_limits<float>::infinity();
  model->set_initial(1, Tensor::of<float>({96, 64}, values));
  EXPECT_NE(error_of(*model, {}).find("element 100 is inf, which q8 cannot hold"), std::string::npos);
  EXPECT_NE(error_of(*model, {}).find("in state 'up'"), std::string::npos);
  EXPECT_FALSE(model->state(2).encoded) << "nothing has changed";
}

// --- graphs

struct Kept {
  std::unique_ptr<Model> model, tables;
  StateStorage storage;
  PassContext context;
  Target target;

  explicit Kept(const char* text) : model(parse_text(text)) {
    quantize(*model, {.embedding = true, .head = true});
    storage = encoded_states(*model);
    tables = Model::with_tables_of(*model);
    add_parts(*tables, storage);
    context.storage = &storage;
    context.target = &target;
  }
  std::string after_decoding() {
    const Graph decoded = decode_quantized(copy_graph(*model->entries()[0], *tables), storage);
    verify(decoded);
    return to_text(decoded);
  }
  std::string after_reading() {
    const Graph read =
        read_quantized(decode_quantized(copy_graph(*model->entries()[0], *tables), storage), context);
    verify(read);
    return to_text(read);
  }
};

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

constexpr const char* kTied = R"(
state @table: f32[8,64] parameter
state @w: f32[64,64] parameter
entry f(tokens: i64[3], y: f32[3,64]) {
  %x = embedding(tokens, @table)
  %h = linear(%x, @w)
  %sum = add(%h, y)
  %logits = matmul(%sum, @table) {transpose_b=true}
  %low = cast(@w) {dtype=bf16}
  %t = permute(@w) {axes=(1, 0)}
  return logits = %logits
  return low = %low
  return t = %t
}
)";

TEST(ReadQuantized, RowsAreLookedUpBeforeTheyAreDecoded) {
  const std::string text = Kept(kTied).after_decoding();
  EXPECT_EQ(count(text, "embedding(tokens, @table.quants) : i8[3,64]"), 1) << text;
  EXPECT_EQ(count(text, "embedding(tokens, @table.scales) : f16[3,2]"), 1) << text;
  EXPECT_EQ(count(text, "dequantize(@table.quants"), 1) << "for the head";
  EXPECT_EQ(count(text, "dequantize(@w.quants, @w.scales) {dtype=bf16}"), 1) << "instead of the cast";
  EXPECT_EQ(count(text, "cast("), 0) << text;
}

TEST(ReadQuantized, ProductsReadTheWeightsWhereAKernelDoes) {
  Kept kept(kTied);
  const std::string text = kept.after_reading();
  EXPECT_EQ(count(text, "= linear("), 2) << text;
  EXPECT_EQ(count(text, "@w.quants, @w.scales)"), 3) << "linear, permute and the cast read it";
  EXPECT_EQ(count(text, "matmul"), 0) << text;
  EXPECT_EQ(count(text, "weight_format=\"q8\""), 2) << text;
  kept.target.is_native = never_native;
  const std::string in_parts = kept.after_reading();
  EXPECT_EQ(count(in_parts, "weight_format=\"q8\""), 0) << in_parts;
  EXPECT_EQ(count(in_parts, "matmul"), 1) << in_parts;
}

}  // namespace
}  // namespace genesis::passes
