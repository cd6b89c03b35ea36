// Tests which routers and experts become one op, and which stay as they are.
#include "passes/fusion/passes.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

std::string fused(const std::string& body) {
  Target target;
  PassContext context;
  context.target = &target;
  return text_after(body, fuse_experts, context);
}

// --- routers

std::string router(const std::string& body) {
  return "entry decode(logits: f32[2,1,8], bias: f32[8]) {\n" + body +
         "return f = %f\nreturn rows = %s\nreturn places = %s:2\nreturn offsets = %s:3\n}\n";
}
std::string routed(const std::string& attributes, const char* inputs = "logits") {
  return normal_text("entry decode(logits: f32[2,1,8], bias: f32[8]) {\n%route = route(" +
                     std::string(inputs) + ") {" + attributes +
                     "}\nreturn f = %route\nreturn rows = %route:1\nreturn places = %route:3\nreturn offsets "
                     "= %route:4\n}\n");
}

constexpr const char* kSort = "%s = sort_groups(%t:1) {groups=8}\n";
constexpr const char* kSum = "%sum = sum(%t) {axes=(2), keep_dims=true}\n";

TEST(FuseExperts, RoutersOfEveryKind) {
  const std::string top = "%p = softmax(logits)\n%t = topk(%p) {k=3, axis=2}\n";
  EXPECT_EQ(fused(router(top + kSort + kSum + "%f = div(%t, %sum)\n")), routed("k=3, normalized=true"));
  EXPECT_EQ(fused(router("%t = topk(logits) {k=2}\n%f = softmax(%t)\n" + std::string(kSort))),
            routed("k=2, scores=\"softmax_of_chosen\""));
  const std::string biased =
      "%p = sigmoid(logits)\n%w = add(%p, bias)\n%t = topk(%w) {k=2}\n%c = gather(%p, %t:1) {axis=2}\n";
  EXPECT_EQ(fused(router(biased + kSort +
                         "%sum = sum(%c) {axes=(2), keep_dims=true}\n%e = full() {value=0.5, dtype=f32}\n"
                         "%more = add(%sum, %e)\n%n = div(%c, %more)\n%by = full() {value=2.5, dtype=f32}\n"
                         "%f = mul(%n, %by)\n")),
            routed("k=2, scores=\"sigmoid\", normalized=true, least_sum=0.5, factor=2.5", "logits, bias"));
}

TEST(FuseExperts, LeaveOtherRouters) {
  const auto is_left = [](const std::string& body) {
    const std::string text = fused(router(body));
    EXPECT_EQ(text.find("route("), std::string::npos) << text;
  };
  is_left("%p = softmax(logits) {axis=0}\n%t = topk(%p) {k=3}\n%f = neg(%t)\n" + std::string(kSort));
  is_left("%p = softmax(logits)\n%t = topk(%p) {k=3, largest=false}\n%f = neg(%t)\n" + std::string(kSort));
  is_left("%p = softmax(logits)\n%t = topk(%p) {k=3}\n%f = cast(%t:1) {dtype=f32}\n" + std::string(kSort));
  is_left("%p = softmax(logits)\n%t = topk(%p) {k=3}\n%f = neg(%t)\n%s = sort_groups(%t:1) {groups=16}\n");
}

// Four groups of two experts, as DeepSeek-V3 chooses among them: `best` makes a number of each group, %o, of %g.
std::string grouped(const std::string& best, const std::string& numbers = "arange() {length=[4]}",
                    const std::string& least = "-inf") {
  return "%p = sigmoid(logits)\n%w = add(%p, bias)\n%g = reshape(%w) {shape=[2,1,4,2]}\n" + best +
         "%c = topk(%o) {k=2, axis=2}\n%i = reshape(%c:1) {shape=[2,1,1,2]}\n%r = " + numbers +
         "\n%column = reshape(%r) {shape=[4,1]}\n%e = eq(%i, %column)\n%a = any(%e) {axes=(3)}\n"
         "%m = reshape(%a) {shape=[2,1,4,1]}\n%no = full() {value=" +
         least +
         "}\n%k = where(%m, %g, %no)\n%all = reshape(%k) {shape=[2,1,8]}\n%t = topk(%all) {k=3, axis=2}\n"
         "%f = gather(%p, %t:1) {axis=2}\n" +
         kSort;
}
constexpr const char* kBestTwo = "%b = topk(%g) {k=2, axis=3}\n%o = sum(%b) {axes=(3)}\n";

TEST(FuseExperts, RoutersWithGroups) {
  const std::string attributes = "k=3, scores=\"sigmoid\", groups=4, chosen_groups=2";
  EXPECT_EQ(fused(router(grouped(kBestTwo))), routed(attributes + ", best_of_group=2", "logits, bias"));
  EXPECT_EQ(fused(router(grouped("%b = topk(%g) {k=1, axis=3}\n%o = reshape(%b) {shape=[2,1,4]}\n"))),
            routed(attributes, "logits, bias"));
}

TEST(FuseExperts, LeaveOtherGroups) {
  const auto is_left = [](const std::string& body) {
    const std::string text = fused(router(body));
    EXPECT_EQ(text.find("route("), std::string::npos) << text;
  };
  is_left(grouped(kBestTwo, "arange() {length=[4], start=1}"));
  is_left(grouped(kBestTwo, "arange() {length=[4]}", "0"));
  is_left(grouped("%o = sum(%g) {axes=(3)}\n"));
  is_left(grouped("%b = topk(%g) {k=2, axis=3, largest=false}\n%o = sum(%b) {axes=(3)}\n"));
  is_left(
      grouped("%h = reshape(%p) {shape=[2,1,4,2]}\n%b = topk(%h) {k=2, axis=3}\n%o = sum(%b) {axes=(3)}\n"));
}

// A quotient of more axes than the factors is left behind the route.
TEST(FuseExperts, LeaveDivisionsThatChangeTheType) {
  const std::string text =
      fused(router("%p = softmax(logits)\n%t = topk(%p) {k=3}\n" + std::string(kSort) + kSum +
                   "%e = full() {value=0.5, dtype=f32, shape=[1,1,1,1]}\n%more = add(%sum, %e)\n"
                   "%f = div(%t, %more)\n"));
  EXPECT_NE(text.find("route("), std::string::npos) << text;
  EXPECT_NE(text.find("div("), std::string::npos) << text;
}

// --- experts

constexpr const char* kStates =
    "state @gate: f32[4,6,5] parameter\nstate @up: f32[4,6,5] parameter\nstate @down: f32[4,5,6] parameter\n"
    "entry decode(x: f32[3,1,5], rows: i64[6], offsets: i64[5], places: i64[3,1,2], factors: f32[3,1,2], "
    "more: f32[3,1,5]) {\n";
constexpr const char* kProducts =
    "%flat = reshape(x) {shape=[3,5]}\n%own = index_select(%flat, rows) {axis=0}\n"
    "%g = grouped_matmul(%own, @gate, offsets)\n%u = grouped_matmul(%own, @up, offsets)\n%h = swiglu(%g, "
    "%u)\n";
constexpr const char* kResults =
    "%d = grouped_matmul(%h, @down, offsets)\n%c = embedding(places, %d)\n"
    "%w = reshape(factors) {shape=[3,1,1,2]}\n%s = matmul(%w, %c)\n%y = reshape(%s) {shape=[3,1,5]}\n";

TEST(FuseExperts, ProductsAndWhatIsAdded) {
  EXPECT_EQ(fused(std::string(kStates) + kProducts + kResults + "return y = %y\n}\n"),
            normal_text(std::string(kStates) +
                        "%flat = reshape(x) {shape=[3,5]}\n"
                        "%experts = experts(%flat, @gate, @up, @down, rows, offsets, places, factors)\n"
                        "%reshape = reshape(%experts) {shape=[3,1,1,5]}\n%y = reshape(%reshape) "
                        "{shape=[3,1,5]}\nreturn y = %y\n}\n"));
  EXPECT_EQ(fused(std::string(kStates) + kProducts + kResults + "%z = add(%y, more)\nreturn z = %z\n}\n"),
            normal_text(std::string(kStates) + "%flat = reshape(x) {shape=[3,5]}\n%experts = experts(%flat, "
                                               "@gate, @up, @down, rows, offsets, places, "
                                               "factors, more) {has_addend=true}\nreturn z = %experts\n}\n"));
}

// A model in bf16 narrows its factors before it reshapes them, one that is cast to bf16 does so afterwards.
TEST(FuseExperts, FactorsThatAreNarrowed) {
  const std::string states =
      "state @gate: bf16[4,6,5] parameter\nstate @up: bf16[4,6,5] parameter\nstate @down: bf16[4,5,6] "
      "parameter\n"
      "entry decode(x: bf16[3,1,5], rows: i64[6], offsets: i64[5], places: i64[3,1,2], factors: f32[3,1,2]) "
      "{\n";
  const std::string results = "%d = grouped_matmul(%h, @down, offsets)\n%c = embedding(places, %d)\n",
                    sum = "%s = matmul(%w, %c)\nreturn y = %s\n}\n";
  for (const char* narrowed : {"%n = cast(factors) {dtype=bf16}\n%w = reshape(%n) {shape=[3,1,1,2]}\n",
                               "%r = reshape(factors) {shape=[3,1,1,2]}\n%w = cast(%r) {dtype=bf16}\n"}) {
    const std::string text = fused(states + kProducts + results + narrowed + sum);
    EXPECT_NE(text.find("experts(%flat, @gate, @up, @down, rows, offsets, places, factors)"),
              std::string::npos)
        << text;
  }
}

// Experts as those of gpt-oss, where `sorted` has the expert of each pair, g is at most `limit`, and u is clamped to `limits`.
std::string clamped_experts(const std::string& sorted = "%s:1",
                            const std::string& limits = "min=-7.0, max=7.0",
                            const std::string& limit = "7.0") {
  return "state @gate: f32[4,6,5] parameter\nstate @up: f32[4,6,5] parameter\nstate @down: f32[4,5,6] "
         "parameter\n"
         "state @gate_b: f32[4,6] parameter\nstate @up_b: f32[4,6] parameter\nstate @down_b: f32[4,5] "
         "parameter\n"
         "entry decode(x: f32[3,5], ids: i64[3,2], others: i64[6], factors: f32[3,2]) {\n"
         "%s = sort_groups(ids) {groups=4}\n%own = index_select(x, %s)\n"
         "%g0 = grouped_matmul(%own, @gate, %s:3)\n%gb = index_select(@gate_b, " +
         sorted +
         ")\n%g = add(%g0, %gb)\n%u0 = grouped_matmul(%own, @up, %s:3)\n%ub = index_select(@up_b, %s:1)\n"
         "%u = add(%ub, %u0)\n%limit = full() {value=" +
         limit +
         "}\n%h = minimum(%g, %limit)\n"
         "%slope = full() {value=1.702}\n%z = mul(%h, %slope)\n%q = sigmoid(%z)\n%hq = mul(%h, %q)\n"
         "%v = clamp(%u) {" +
         limits +
         "}\n%one = full() {value=1}\n%v1 = add(%v, %one)\n%y = mul(%hq, %v1)\n"
         "%d0 = grouped_matmul(%y, @down, %s:3)\n%db = index_select(@down_b, %s:1)\n%d = add(%d0, %db)\n"
         "%c = embedding(%s:2, %d)\n%w = reshape(factors) {shape=[3,1,2]}\n%sum = matmul(%w, %c)\n"
         "return y = %sum\n}\n";
}

TEST(FuseExperts, BiasesAndAClampedActivation) {
  const std::string text = fused(clamped_experts());
  EXPECT_NE(text.find("experts(x, @gate, @up, @down, %s, %s:3, %s:2, factors, @gate_b, @up_b, @down_b) "
                      "{activation=\"clamped_swiglu\", has_biases=true, limit=7.0, slope=1.702}"),
            std::string::npos)
      << text;
  for (const std::string& other :
       {clamped_experts("others"), clamped_experts("%s"), clamped_experts("%s:1", "min=-6.0, max=7.0"),
        clamped_experts("%s:1", "min=5.0, max=-5.0", "-5.0"),
        clamped_experts("%s:1", "min=0.0, max=0.0", "0.0")}) {
    const std::string left = fused(other);
    EXPECT_EQ(left.find(" experts("), std::string::npos) << left;
  }
}

// A file may hold the activation as one region, which is written as single ops first.
TEST(FuseExperts, RegionsBetweenProducts) {
  const std::string text =
      fused(std::string(kStates) +
            "%flat = reshape(x) {shape=[3,5]}\n%own = index_select(%flat, rows) {axis=0}\n"
            "%g = grouped_matmul(%own, @gate, offsets)\n%u = grouped_matmul(%own, @up, offsets)\n"
            "%h = fused(%g, %u) {body=(\"full {dtype=f32, shape=[], value=7.0}\", \"minimum %0 %2\", "
            "\"full {dtype=f32, shape=[], value=2.0}\", \"mul %3 %4\", \"sigmoid %5\", \"mul %3 %6\", "
            "\"clamp %1 {max=7.0, min=-7.0}\", \"full {dtype=f32, shape=[], value=1}\", \"add %8 %9\", "
            "\"mul %7 %10\"), outputs=(11)}\n" +
            kResults + "return y = %y\n}\n");
  EXPECT_NE(text.find("{activation=\"clamped_swiglu\", limit=7.0, slope=2.0}"), std::string::npos) << text;
}

TEST(FuseExperts, LeaveOtherProducts) {
  const auto is_left = [](const std::string& body) {
    const std::string text = fused(std::string(kStates) + body);
    EXPECT_EQ(text.find("experts("), std::string::npos) << text;
  };
  is_left(std::string(kProducts) + kResults + "return y = %y\nreturn h = %h\n}\n");
  is_left(std::string(kProducts) + "%d = grouped_matmul(%h, @gate, offsets) {transpose_weights=false}\n" +
          std::string(kResults).substr(std::string(kResults).find("%c")) + "return y = %y\n}\n");
}

// Rows of x that are no rows of the products, because reshapes join or cut them.
TEST(FuseExperts, LeaveRowsOfOtherSizes) {
  const auto is_left = [](const std::string& x, const std::string& rows, const std::string& own) {
    const std::string text = fused(
        "state @gate: f32[4,6,5] parameter\nstate @up: f32[4,6,5] parameter\n"
        "state @down: f32[4,5,6] parameter\nentry decode(x: f32" +
        x + ", rows: i64" + rows +
        ", offsets: i64[5], places: i64[3,2], factors: f32[3,2]) {\n"
        "%all = index_select(x, rows) {axis=0}\n%own = reshape(%all) {shape=" +
        own +
        "}\n"
        "%g = grouped_matmul(%own, @gate, offsets)\n%u = grouped_matmul(%own, @up, offsets)\n"
        "%h = swiglu(%g, %u)\n%d = grouped_matmul(%h, @down, offsets)\n%c = embedding(places, %d)\n"
        "%w = reshape(factors) {shape=[3,1,2]}\n%s = matmul(%w, %c)\nreturn y = %s\n}\n");
    EXPECT_EQ(text.find("experts("), std::string::npos) << text;
  };
  is_left("[3,2,5]", "[6]", "[12,5]");
  is_left("[3,10]", "[3]", "[6,5]");
  is_left("[3,10]", "[6]", "[12,5]");
}

}  // namespace
}  // namespace genesis::passes
