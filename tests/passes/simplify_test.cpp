#include "passes/simplify/passes.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

// Returns the body of f after simplification, without types and braces.
std::string simplified(const std::string& inputs, const std::string& body) {
  const std::string text = "entry f(" + inputs + ") {\n" + body + "\n}";
  const auto twice = [](const Graph& graph, const PassContext& context) {
    return eliminate_dead_code(simplify(graph, context), context);
  };
  std::string result = text_after(text, twice), lines;
  result = result.substr(result.find('\n') + 1);
  while (result.find('\n') != std::string::npos) {
    const std::string line = result.substr(0, result.find('\n'));
    result = result.substr(line.size() + 1);
    if (line == "}") break;
    lines += line.substr(2, line.find(" : ") - 2) + "\n";
  }
  return lines;
}

void expect_simplified(const std::string& inputs, const std::string& body, const std::string& expected) {
  EXPECT_EQ(simplified(inputs, body), expected) << body;
}

void expect_unchanged(const std::string& inputs, const std::string& body) {
  const std::string after = simplified(inputs, body);
  const size_t lines = static_cast<size_t>(std::count(body.begin(), body.end(), '\n')) + 1;
  EXPECT_EQ(static_cast<size_t>(std::count(after.begin(), after.end(), '\n')), lines) << after;
}

TEST(Simplify, NeutralElements) {
  expect_simplified("x: f32[2,3]", "%c = full() {value=1}\n %y = mul(x, %c)\n return y = %y",
                    "return y = x\n");
  expect_simplified("x: f32[2,3]", "%c = full() {value=1.0}\n %y = div(x, %c)\n return y = %y",
                    "return y = x\n");
  expect_simplified("x: f32[3]", "%c = full() {value=0.0}\n %y = sub(x, %c)\n return y = %y",
                    "return y = x\n");
  expect_simplified("x: i32[3]", "%c = full() {value=0, dtype=i32}\n %y = add(x, %c)\n return y = %y",
                    "return y = x\n");
  expect_simplified("x: f32[3]", "%c = full() {value=-0.0}\n %y = add(%c, x)\n return y = %y",
                    "return y = x\n");
  expect_simplified("x: i32[]", "%c = full() {value=0, dtype=i32}\n %y = mul(x, %c)\n return y = %y",
                    "%c = full() {dtype=i32}\nreturn y = %c\n");
}

TEST(Simplify, LeavesAloneWhatWouldChangeBitsOrTypes) {
  expect_unchanged("x: f32[3]",
                   "%c = full() {value=0.0}\n %y = add(x, %c)\n return y = %y");  // -0.0 + 0.0 is 0.0
  expect_unchanged("x: f32[3]", "%c = full() {value=0.0}\n %y = mul(x, %c)\n return y = %y");  // NaN * 0
  expect_unchanged("x: f32[3]", "%c = full() {value=3.0}\n %y = div(x, %c)\n return y = %y");
  expect_unchanged("x: f32[3]", "%c = full() {shape=[2,3], value=1.0}\n %y = mul(x, %c)\n return y = %y");
  expect_unchanged("x: i32[3]", "%c = full() {value=1.0}\n %y = mul(x, %c)\n return y = %y");  // gives reals
  expect_unchanged("x: f32[3]", "%a = sub(x, x)\n return y = %a");
}

TEST(Simplify, Negation) {
  expect_simplified("x: f32[3]", "%a = neg(x)\n %b = neg(%a)\n return y = %b", "return y = x\n");
  expect_simplified("x: f32[3], y: f32[3]", "%a = neg(y)\n %b = add(x, %a)\n return y = %b",
                    "%sub = sub(x, y)\nreturn y = %sub\n");
  expect_simplified("x: f32[3], y: f32[3]", "%a = neg(x)\n %b = neg(y)\n %c = mul(%a, %b)\n return y = %c",
                    "%mul = mul(x, y)\nreturn y = %mul\n");
  expect_simplified("x: f32[3]", "%a = neg(x)\n %b = abs(%a)\n %c = square(%b)\n return y = %c",
                    "%square = square(x)\nreturn y = %square\n");
  expect_simplified("x: f32[3]", "%c = full() {value=-1.0}\n %y = mul(x, %c)\n return y = %y",
                    "%neg = neg(x)\nreturn y = %neg\n");
}

TEST(Simplify, PowersAndQuotients) {
  expect_simplified("x: f32[3]", "%c = full() {value=2.0}\n %y = pow(x, %c)\n return y = %y",
                    "%square = square(x)\nreturn y = %square\n");
  expect_simplified("x: f32[3]", "%c = full() {value=8.0}\n %y = div(x, %c)\n return y = %y",
                    "%full = full() {value=0.125}\n%mul = mul(x, %full)\nreturn y = %mul\n");
}

TEST(Simplify, Selection) {
  expect_simplified("c: bool[3], x: f32[3]", "%y = where(c, x, x)\n return y = %y", "return y = x\n");
  expect_simplified("x: f32[3], z: f32[3]",
                    "%c = full() {value=0, dtype=bool}\n %y = where(%c, x, z)\n return y = %y",
                    "return y = z\n");
  expect_simplified("x: f32[3]", "%y = maximum(x, x)\n return y = %y", "return y = x\n");
  expect_simplified("x: f32[3]", "%y = clamp(x) {min=-inf, max=inf}\n return y = %y", "return y = x\n");
  expect_simplified("r: i64[2], x: f32[3]", "%y = dropout(r, x) {p=0.0}\n return y = %y", "return y = x\n");
  expect_simplified("x: f32[3]", "%a = relu(x)\n %b = relu(%a)\n return y = %b",
                    "%a = relu(x)\nreturn y = %a\n");
}

TEST(Simplify, Casts) {
  expect_simplified("x: bf16[3]", "%a = cast(x) {dtype=f32}\n %b = cast(%a) {dtype=bf16}\n return y = %b",
                    "return y = x\n");
  expect_simplified("x: f32[3]", "%a = cast(x) {dtype=f64}\n %b = cast(%a) {dtype=bf16}\n return y = %b",
                    "%cast = cast(x) {dtype=bf16}\nreturn y = %cast\n");
  expect_unchanged("x: f32[3]", "%a = cast(x) {dtype=bf16}\n %b = cast(%a) {dtype=f32}\n return y = %b");
  expect_unchanged("x: i32[3]", "%a = cast(x) {dtype=f64}\n %b = cast(%a) {dtype=bf16}\n return y = %b");
  expect_unchanged("x: f32[3]", "%a = cast(x) {dtype=i32}\n %b = cast(%a) {dtype=f32}\n return y = %b");
}

TEST(Simplify, Layout) {
  expect_simplified("x: f32[b,6]",
                    "%a = reshape(x) {shape=[b,2,3]}\n %c = reshape(%a) {shape=[2*b,3]}\n return y = %c",
                    "%reshape = reshape(x) {shape=[2*b,3]}\nreturn y = %reshape\n");
  expect_simplified("x: f32[b,6]",
                    "%a = reshape(x) {shape=[b,2,3]}\n %c = reshape(%a) {shape=[b,6]}\n return y = %c",
                    "return y = x\n");
  expect_simplified("x: f32[2,3,4]",
                    "%a = permute(x) {axes=(0, 2, 1)}\n %b = permute(%a) {axes=(0, -1, -2)}\n return y = %b",
                    "return y = x\n");
  expect_simplified("x: f32[2,3,4]",
                    "%a = permute(x) {axes=(1, 2, 0)}\n %b = permute(%a) {axes=(1, 2, 0)}\n return y = %b",
                    "%permute = permute(x) {axes=(2, 0, 1)}\nreturn y = %permute\n");
  expect_simplified("x: f32[4]", "%y = slice(x) {start=[0], length=[4]}\n return y = %y", "return y = x\n");
  expect_unchanged("x: f32[4]", "%y = slice(x) {start=[3], length=[4], step=-1}\n return y = %y");
  expect_simplified("x: f32[4]", "%y = concat(x)\n return y = %y", "return y = x\n");
  expect_simplified("",
                    "%c = full() {value=2.0}\n %r = reshape(%c) {shape=[1,1]}\n"
                    "%e = expand(%r) {shape=[b,3]}\n return y = %e",
                    "%full_1 = full() {shape=[b,3], value=2.0}\nreturn y = %full_1\n");
}

TEST(Simplify, BroadcastingMakesExpansionsNeedless) {
  expect_simplified("x: f32[2,3], y: f32[1,3]",
                    "%e = expand(y) {shape=[2,3]}\n %a = mul(x, %e)\n return y = %a",
                    "%mul = mul(x, y)\nreturn y = %mul\n");
  expect_unchanged(
      "x: f32[3], y: f32[1,3]",
      "%e = expand(y) {shape=[2,3]}\n %g = expand(x) {shape=[2,3]}\n %a = mul(%g, %e)\n return y = %a\n"
      "return e = %e\n return g = %g");
}

TEST(Simplify, TransposesIntoProducts) {
  expect_simplified("x: f32[5,2,3], w: f32[4,3]",
                    "%t = permute(w) {axes=(1, 0)}\n %y = matmul(x, %t)\n return y = %y",
                    "%matmul = matmul(x, w) {transpose_b=true}\nreturn y = %matmul\n");
  expect_simplified(
      "x: f32[3,2], w: f32[4,3]",
      "%u = permute(x) {axes=(1, 0)}\n %t = permute(w) {axes=(1, 0)}\n"
      "%y = matmul(%u, w) {transpose_b=true}\n %z = matmul(%u, %t)\n %s = add(%y, %z)\n return y = %s",
      "%matmul = matmul(x, w) {transpose_a=true, transpose_b=true}\n"
      "%matmul_1 = matmul(x, w) {transpose_a=true, transpose_b=true}\n"
      "%s = add(%matmul, %matmul_1)\nreturn y = %s\n");
}

TEST(Simplify, TransposesLeaveLargerPermutes) {
  expect_simplified("q: f32[2,4,5,8], k: f32[2,6,4,8]",
                    "%h = permute(k) {axes=(0, 2, 1, 3)}\n %t = permute(%h) {axes=(0, 1, 3, 2)}\n"
                    "%s = matmul(q, %t)\n return y = %s",
                    "%permute_1 = permute(k) {axes=(0, 2, 1, 3)}\n"
                    "%matmul = matmul(q, %permute_1) {transpose_b=true}\nreturn y = %matmul\n");
}

TEST(Simplify, HeadsStayWhereProjectionsPutThem) {
  expect_simplified("q: f32[2,8,4,16], k: f32[2,8,2,16], v: f32[2,8,2,16]", R"(
    %a = permute(q) {axes=(0, 2, 1, 3)}
    %b = permute(k) {axes=(0, 2, 1, 3)}
    %c = permute(v) {axes=(0, 2, 1, 3)}
    %y = attention(%a, %b, %c) {causal=true, layout="bhtd"}
    %o = permute(%y) {axes=(0, 2, 1, 3)}
    %r = reshape(%o) {shape=[2,8,64]}
    return y = %r)",
                    "%attention = attention(q, k, v) {causal=true}\n"
                    "%r = reshape(%attention) {shape=[2,8,64]}\nreturn y = %r\n");
}

// run_decompositions() of PyTorch makes such products of repeated heads.
TEST(Simplify, ProductsGetTheirBatchAxesBack) {
  const std::string heads = "%u = reshape(k) {shape=[2,2,1,5,8]}\n %e = expand(%u) {shape=[2,2,3,5,8]}\n";
  const std::string product =
      "%a = reshape(q) {shape=[12,5,8]}\n %b = reshape(%e) {shape=[12,5,8]}\n"
      "%m = matmul(%a, %b) {transpose_b=true}\n";
  expect_simplified("q: f32[2,6,5,8], k: f32[2,2,5,8]",
                    heads + product + "%y = reshape(%m) {shape=[2,6,5,5]}\n return y = %y",
                    "%u = reshape(k) {shape=[2,2,1,5,8]}\n%e = expand(%u) {shape=[2,2,3,5,8]}\n"
                    "%reshape = reshape(%e) {shape=[2,6,5,8]}\n"
                    "%matmul = matmul(q, %reshape) {transpose_b=true}\nreturn y = %matmul\n");
}

TEST(Simplify, KnownSizesAreNumbers) {
  expect_simplified("x: f32[3]", "%d = dim_value() {dim=[7], dtype=f32}\n %y = mul(x, %d)\n return y = %y",
                    "%full = full() {value=7}\n%y = mul(x, %full)\nreturn y = %y\n");
  expect_unchanged("x: f32[n]", "%d = dim_value() {dim=[n], dtype=f32}\n %y = mul(x, %d)\n return y = %y");
}

TEST(Simplify, TellsWhichRewriteHit) {
  std::vector<std::string> hits;
  PassContext context;
  context.on_rewrite = [&](std::string_view rewrite, const std::string&) { hits.emplace_back(rewrite); };
  const auto model = parse_text("entry f(x: f32[3]) {\n %a = neg(x)\n %b = neg(%a)\n return y = %b\n}");
  simplify(model->entry("f"), context);
  EXPECT_EQ(hits, std::vector<std::string>{"twice_undone"});
}

}  // namespace
}  // namespace genesis::passes
