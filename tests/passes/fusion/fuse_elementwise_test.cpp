// Tests which nodes become a region and what its program is, by graphs before and after.
#include "passes/fusion/elementwise/fuse_elementwise.h"

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

void expect_fused(const std::string& before, const std::string& after) {
  EXPECT_EQ(text_after(before, fuse_elementwise), normal_text(after));
}
void expect_unchanged(const std::string& text) { expect_fused(text, text); }

TEST(FuseElementwise, AChainBecomesOneNode) {
  expect_fused(R"(entry f(x: f32[4,8], y: f32[8]) {
    %a = add(x, y)
    %b = gelu(%a)
    %c = mul(%b, x)
    return c = %c
  })",
               R"(entry f(x: f32[4,8], y: f32[8]) {
    %fused = fused(x, y) {body=("add %0 %1", "gelu %2 {approximate=\"none\"}", "mul %3 %0"), outputs=(4)}
    return c = %fused
  })");
}

TEST(FuseElementwise, KeepsWhatOthersRead) {
  expect_fused(R"(entry f(x: f32[4,8]) {
    %a = exp(x)
    %b = neg(%a)
    %s = sum(%a) {axes=(0)}
    return b = %b
    return s = %s
  })",
               R"(entry f(x: f32[4,8]) {
    %fused = fused(x) {body=("exp %0", "neg %1"), outputs=(1,2)}
    %s = sum(%fused) {axes=(0)}
    return b = %fused:1
    return s = %s
  })");
}

TEST(FuseElementwise, ConstantsAndExpansionsAreMadeInside) {
  expect_fused(R"(entry f(x: f32[4,8], r: f32[4,1]) {
    %half = full() {value=0.5}
    %e = expand(r) {shape=[4,8]}
    %a = mul(x, %e)
    %b = mul(%a, %half)
    return b = %b
  })",
               R"(entry f(x: f32[4,8], r: f32[4,1]) {
    %fused = fused(x, r) {body=("expand %1 {shape=[4,8]}", "mul %0 %2",
                                "full {dtype=f32, shape=[], value=0.5}", "mul %3 %4"), outputs=(5)}
    return b = %fused
  })");
}

// b needs a product of a: if a and b were one node, it would have to run both before and after that product.
TEST(FuseElementwise, NeverMakesACycle) {
  expect_unchanged(R"(entry f(x: f32[4,4]) {
    %a = exp(x)
    %m = matmul(%a, x)
    %b = add(%a, %m)
    return b = %b
  })");
}

// The path from a to c goes through t's region: it is entered at u, after c, and left at t, before c.
TEST(FuseElementwise, NeverMakesACycleThroughAnEarlierMemberOfAnotherRegion) {
  expect_fused(R"(entry f(x: f32[3,4], y: f32[3,4], d: f32[3,4]) {
    %a = exp(y)
    %p = permute(x) {axes=(1,0)}
    %t = tanh(%p)
    %q = permute(%t) {axes=(1,0)}
    %c = mul(%a, %q)
    %g = mul(d, %a)
    %r = permute(%g) {axes=(1,0)}
    %s = square(%t)
    %u = mul(%r, %s)
    return c = %c
    return u = %u
  })",
               R"(entry f(x: f32[3,4], y: f32[3,4], d: f32[3,4]) {
    %p = permute(x) {axes=(1,0)}
    %fused = fused(y, d) {body=("exp %0", "mul %1 %2"), outputs=(2,3)}
    %r = permute(%fused:1) {axes=(1,0)}
    %fused_1 = fused(%p, %r) {body=("tanh %0", "square %2", "mul %1 %3"), outputs=(2,4)}
    %q = permute(%fused_1) {axes=(1,0)}
    %c = mul(%fused, %q)
    return c = %c
    return u = %fused_1:1
  })");
}

TEST(FuseElementwise, ReductionsOverTheLastAxisJoin) {
  expect_fused(R"(entry f(x: f32[4,8]) {
    %m = max(x) {axes=(1), keep_dims=true}
    %d = sub(x, %m)
    %e = exp(%d)
    %s = sum(%e) {axes=(1), keep_dims=true}
    %y = div(%e, %s)
    return y = %y
    return s = %s
  })",
               R"(entry f(x: f32[4,8]) {
    %fused = fused(x) {body=("max %0 {axes=(1), keep_dims=true}", "sub %0 %1", "exp %2",
                             "sum %3 {axes=(1), keep_dims=true}", "div %3 %4"), outputs=(4,5)}
    return y = %fused:1
    return s = %fused
  })");
}

TEST(FuseElementwise, ALostAxisComesBackOutside) {
  expect_fused(R"(entry f(x: f32[4,8]) {
    %e = exp(x)
    %s = sum(%e) {axes=(1)}
    return s = %s
  })",
               R"(entry f(x: f32[4,8]) {
    %fused = fused(x) {body=("exp %0", "sum %1 {axes=(1), keep_dims=true}"), outputs=(2)}
    %reshape = reshape(%fused) {shape=[4]}
    return s = %reshape
  })");
}

TEST(FuseElementwise, LeavesOtherShapesAndLongRowsAlone) {
  expect_unchanged(R"(entry f(x: f32[4,8], y: f32[8]) {
    %a = exp(y)
    %b = add(x, %a)
    return b = %b
  })");
  expect_unchanged(R"(entry f(x: f32[4,100000]) {
    %e = exp(x)
    %s = sum(%e) {axes=(1)}
    return s = %s
  })");
  expect_unchanged(R"(entry f(x: f32[4,8]) {
    %s = sum(x) {axes=(1)}
    %t = sum(x) {axes=(0)}
    return s = %s
    return t = %t
  })");
}

// sigmoid(x) is needed where dy is, not where x was made: it is computed there.
TEST(FuseElementwise, ValuesAreMadeNextToTheirReaders) {
  expect_fused(R"(entry f(u: f32[4,4], v: f32[4,4]) {
    %x = add(u, v)
    %s = sigmoid(%x)
    %dy = matmul(%x, v)
    %dx = mul(%dy, %s)
    return dx = %dx
  })",
               R"(entry f(u: f32[4,4], v: f32[4,4]) {
    %x = add(u, v)
    %dy = matmul(%x, v)
    %fused = fused(%x, %dy) {body=("sigmoid %0", "mul %1 %2"), outputs=(3)}
    return dx = %fused
  })");
}

TEST(FuseElementwise, KeepsTheAuthorsNames) {
  const auto model = parse_text(R"(entry f(x: f32[4]) {
    %layer.a = exp(x)
    %layer.b = neg(%layer.a)
    return b = %layer.b
  })");
  const Graph result = fuse_elementwise(*model->entries()[0], {});
  ASSERT_EQ(result.nodes().size(), 1u);
  EXPECT_EQ(result.nodes()[0].name, "layer.fused");
  EXPECT_EQ(result.nodes()[0].origins, (std::vector<std::string>{"layer.a", "layer.b"}));
}

TEST(FuseElementwise, SymbolicSizes) {
  expect_fused(R"(entry f(x: f32[n,8]) {
    %a = exp(x)
    %b = neg(%a)
    return b = %b
  })",
               R"(entry f(x: f32[n,8]) {
    %fused = fused(x) {body=("exp %0", "neg %1"), outputs=(2)}
    return b = %fused
  })");
}

}  // namespace
}  // namespace genesis::passes
