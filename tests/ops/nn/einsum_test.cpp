// Tests einsum against a sum over all index values.
#include <map>

#include "schema/ops/nn/matmul.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

// `subscripts` has no '...': one text per operand. Sizes of 1 broadcast.
Ref einsum_reference(const std::vector<std::string>& subscripts, const std::string& output, const Refs& x) {
  std::map<char, int64_t> sizes;
  for (size_t t = 0; t < x.size(); ++t)
    for (size_t i = 0; i < subscripts[t].size(); ++i) {
      int64_t& size = sizes.try_emplace(subscripts[t][i], 1).first->second;
      size = size == 1 ? x[t].shape[i] : size;
    }
  std::vector<int64_t> all, shape;
  std::map<char, size_t> place;
  for (const auto& [label, size] : sizes) {
    place[label] = all.size();
    all.push_back(size);
  }
  for (char label : output) shape.push_back(sizes.at(label));
  Ref y = ref_zeros(shape);
  int64_t total = 1;
  for (int64_t size : all) total *= size;
  for (int64_t flat = 0; flat < total; ++flat) {
    const auto at = unravel(flat, all);
    double product = 1;
    for (size_t t = 0; t < x.size(); ++t) {
      std::vector<int64_t> index;
      for (size_t i = 0; i < subscripts[t].size(); ++i)
        index.push_back(x[t].shape[i] == 1 ? 0 : at[place[subscripts[t][i]]]);
      product *= x[t][ravel(index, x[t].shape)];
    }
    std::vector<int64_t> to;
    for (char label : output) to.push_back(at[place[label]]);
    y[ravel(to, shape)] += product;
  }
  return y;
}

// `plain` is the equation without '...' and with '->', for the reference.
void check_einsum(const std::string& equation, const std::string& plain,
                  const std::vector<std::vector<int64_t>>& shapes) {
  std::vector<std::string> subscripts = {""};
  const size_t arrow = plain.find("->");
  for (char c : plain.substr(0, arrow)) {
    if (c == ',')
      subscripts.emplace_back();
    else
      subscripts.back() += c;
  }
  const std::string output = plain.substr(arrow + 2);
  std::string name = "einsum_";
  for (char c : equation) name += std::isalpha(static_cast<unsigned char>(c)) ? c : '_';
  OpCase one{.name = name,
             .inputs = {},
             .build = [=](const Inputs& x) { return Outputs{einsum(equation, x.values)}; },
             .reference = [=](const Refs& x) { return Refs{einsum_reference(subscripts, output, x)}; }};
  for (const auto& shape : shapes) one.inputs.push_back(real(shape));
  check(with_terms(one));
}

TEST(Einsum, Products) {
  check_einsum("ij,jk->ik", "ij,jk->ik", {{3, 4}, {4, 5}});
  check_einsum("ij,jk", "ij,jk->ik", {{3, 4}, {4, 5}});
  check_einsum("ba,ca", "ba,ca->bc", {{3, 4}, {5, 4}});
  check_einsum("ij,kj->ki", "ij,kj->ki", {{3, 4}, {5, 4}});
  check_einsum("bij,bjk->bik", "bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}});
  check_einsum("bthd,bshd->bhts", "bthd,bshd->bhts", {{2, 3, 2, 4}, {2, 5, 2, 4}});
  check_einsum("bhts,bshd->bthd", "bhts,bshd->bthd", {{2, 2, 3, 5}, {2, 5, 2, 4}});
  check_einsum("abcd,dcef->abef", "abcd,dcef->abef", {{2, 3, 2, 4}, {4, 2, 3, 2}});
  check_einsum("i,i->", "i,i->", {{6}, {6}});
  check_einsum("i,j->ij", "i,j->ij", {{3}, {4}});
  check_einsum("bn,anm,bm->ba", "bn,anm,bm->ba", {{2, 3}, {4, 3, 5}, {2, 5}});
  check_einsum("ij,jk,kl,lm->im", "ij,jk,kl,lm->im", {{2, 3}, {3, 4}, {4, 2}, {2, 3}});
}

TEST(Einsum, OneOperand) {
  check_einsum("ij->ji", "ij->ji", {{3, 4}});
  check_einsum("ba", "ba->ab", {{3, 4}});
  check_einsum("ij->", "ij->", {{3, 4}});
  check_einsum("ijk->k", "ijk->k", {{3, 4, 2}});
  check_einsum("ii", "ii->", {{4, 4}});
  check_einsum("ii->i", "ii->i", {{4, 4}});
  check_einsum("bii->bi", "bii->bi", {{2, 3, 3}});
  check_einsum("iji->j", "iji->j", {{3, 4, 3}});
  check_einsum("iii->i", "iii->i", {{3, 3, 3}});
}

TEST(Einsum, SumsAndDiagonalsBesideProducts) {
  check_einsum("ijx,jk->ik", "ijx,jk->ik", {{3, 4, 2}, {4, 5}});
  check_einsum("iij,jk->ik", "iij,jk->ik", {{3, 3, 4}, {4, 5}});
  check_einsum("ab,cd->ac", "ab,cd->ac", {{2, 3}, {4, 2}});
}

TEST(Einsum, Ellipsis) {
  check_einsum("...ij,...jk->...ik", "abij,abjk->abik", {{2, 2, 3, 4}, {2, 2, 4, 5}});
  check_einsum("...ij,jk", "aij,jk->aik", {{2, 3, 4}, {4, 5}});
  check_einsum("i...->...", "ia->a", {{3, 4}});
  check_einsum("...i,...i->...", "bai,ai->ba", {{2, 3, 4}, {3, 4}});
  check_einsum("ij...->ij", "ija->ij", {{2, 3, 4}});
  check_einsum("...,...->...", "ab,ab->ab", {{2, 3}, {1, 3}});
}

TEST(Einsum, BroadcastsSizesOfOne) {
  check_einsum("ij,ij->ij", "ij,ij->ij", {{3, 1}, {3, 4}});
  check_einsum("ij,jk->ik", "ij,jk->ik", {{3, 1}, {4, 5}});
  check_einsum("ij,ik->jk", "ij,ik->jk", {{1, 2}, {4, 3}});
}

TEST(Einsum, Scalars) { check_einsum(",i->i", ",i->i", {{}, {3}}); }

TEST(Einsum, SymbolicSizes) {
  const Dim batch = Dim::symbol("batch"), time = Dim::symbol("time");
  const auto types = infer_case({{DType::f32, {batch, time, 8, 16}}, {DType::f32, {batch, time, 8, 16}}},
                                [](const Inputs& x) {
                                  return Outputs{einsum("bthd,bshd->bhts", {x[0], x[1]})};
                                });
  EXPECT_EQ(types[0].to_string(), "f32[batch,8,time,time]");
}

TEST(Einsum, Errors) {
  const auto build = [](const std::string& equation, std::vector<TensorType> types) {
    return [=] { infer_case(types, [=](const Inputs& x) { return Outputs{einsum(equation, x.values)}; }); };
  };
  const TensorType matrix{DType::f32, {3, 4}}, vector{DType::f32, {5}};
  expect_error(build("ij,jk->ik", {matrix}), {"names 2 operands, 1", "einsum 'ij,jk->ik'"});
  expect_error(build("ij,j->i", {matrix, vector}), {"index 'j'", "4", "5"});
  expect_error(build("ijk->i", {matrix}), {"f32[3,4]", "3 axes", "has 2"});
  expect_error(build("i->i", {matrix}), {"name 1 axes"});
  expect_error(build("ij->ik", {matrix}), {"'k' occurs in no operand"});
  expect_error(build("ij->ii", {matrix}), {"'i' occurs twice"});
  expect_error(build("i1->i", {matrix}), {"'1' is not an index"});
  expect_error(build("......->", {matrix}), {"more than one '...'"});
  expect_error(build("ii->i", {matrix}), {"sizes 3 and 4"});
}

}  // namespace
}  // namespace genesis::testing
