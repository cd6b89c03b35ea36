// Tests generated CUDA kernels without a GPU: all elementwise ops in all dtypes and a set of fused programs compile;
// the plan of threads and packs is as expected; the cache of compiled kernels survives damage.
#include "backends/cuda/codegen/fused_source.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "backends/cuda/codegen/nvrtc.h"
#include "backends/cuda/runtime/libraries.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/fused.h"

namespace genesis::cuda {
namespace {

constexpr DType kAll[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,
                          DType::u8,  DType::i16, DType::i32, DType::i64,  DType::boolean};
// One dtype of each kind that formulas are computed in.
constexpr DType kKinds[] = {DType::f32, DType::f64, DType::bf16, DType::i32, DType::boolean};

FusedProgram fused_program(std::vector<std::string> body, std::vector<int64_t> outputs,
                           std::vector<TensorType> inputs) {
  return parse_fused_program(ops::Fused{std::move(body), std::move(outputs)}, inputs);
}

std::string source_of(const FusedProgram& program) { return fused_source(program, plan_fused(program)); }

// Returns a program with every elementwise op that takes operands of `dtype`. The first input is a condition.
FusedProgram every_op(DType dtype) {
  const std::vector<TensorType> inputs{
      {DType::boolean, {64, 128}}, {dtype, {64, 128}}, {dtype, {64, 128}}, {dtype, {64, 128}}};
  std::vector<std::string> body;
  std::vector<int64_t> outputs;
  for (const OpDef* op : all_ops()) {
    if (!op->info.elementwise) continue;
    const bool where = op->name() == "where";
    std::vector<int> operands;
    std::vector<TensorType> types;
    for (int i = 0; i < op->info.inputs.min; ++i) {
      operands.push_back(where ? i : i + 1);
      types.push_back(inputs[static_cast<size_t>(operands.back())]);
    }
    try {
      infer_types(*op, op->canonical({}), types);
    } catch (const Error&) {
      continue;  // not available for this dtype
    }
    outputs.push_back(static_cast<int64_t>(inputs.size() + body.size()));
    body.push_back(fused_op_text(*op, op->canonical({}), operands));
  }
  return fused_program(body, outputs, inputs);
}

const std::vector<FusedProgram>& programs() {
  const TensorType x{DType::f32, {64, 896}}, low{DType::bf16, {64, 896}}, odd{DType::f32, {3, 7, 11}};
  const TensorType row{DType::f32, {64, 1}}, columns{DType::f32, {896}}, scalar{DType::f32, {}};
  static const std::vector<FusedProgram> all = {
      fused_program({"mul %0 %1", "add %2 %0", "gelu %3 {approximate=\"none\"}", "sigmoid %4", "sub %5 %1"},
                    {6}, {x, x}),
      fused_program({"mul %0 %1", "add %4 %2", "maximum %5 %3", "lt %5 %3"}, {4, 6, 7},
                    {x, columns, row, scalar}),
      fused_program({"mul %0 %1", "add %3 %2"}, {4}, {odd, {DType::f32, {7, 1}}, {DType::bf16, {3, 1, 11}}}),
      fused_program({"cast %0 {dtype=bf16}", "mul %1 %2", "cast %3 {dtype=i8}", "where %2 %4 %1"}, {3, 5, 6},
                    {x, low, {DType::boolean, {64, 896}}}),
      fused_program({"full {dtype=f64, shape=[], value=-inf}", "full {dtype=i64, shape=[], value=7}",
                     "floordiv %0 %2", "cast %3 {dtype=f64}", "maximum %4 %1"},
                    {5}, {{DType::i32, {5}}}),
      fused_program({"max %0 {axes=(1), keep_dims=true}", "sub %0 %1", "exp %2",
                     "sum %3 {axes=(1), keep_dims=true}", "div %3 %4"},
                    {5, 4}, {low}),
      fused_program(
          {"add %0 %1", "square %3", "mean %4 {axes=(1), keep_dims=true}",
           "full {dtype=f32, shape=[], value=1e-05}", "add %5 %6", "rsqrt %7", "mul %3 %8", "mul %9 %2"},
          {3, 10}, {low, low, {DType::bf16, {896}}}),
      fused_program({"max %0 {axes=(2), keep_dims=true}", "min %0 {axes=(2), keep_dims=true}", "sub %1 %2",
                     "div %0 %3"},
                    {4, 1}, {odd}),
      fused_program({"sum %0 {axes=(1), keep_dims=true}", "sub %0 %1"}, {2}, {{DType::f32, {4, 151936}}}),
      fused_program({"sum %0 {axes=(1), keep_dims=true}", "max %1 {axes=(1), keep_dims=true}", "add %2 %3"},
                    {4}, {{DType::boolean, {9, 3}}, {DType::i16, {9, 3}}}),
  };
  return all;
}

class FusedSource : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!nvrtc().available()) GTEST_SKIP() << "NVRTC is not installed: generated kernels are not compiled";
  }
};

TEST_F(FusedSource, EveryElementwiseOpCompilesInEveryDtype) {
  for (DType dtype : kKinds) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    const FusedProgram program = every_op(dtype);
    EXPECT_GT(program.outputs.size(), 30u);
    EXPECT_NO_THROW(compile(source_of(program), 9, 0));
  }
}

// Reads every dtype, converts it to the next one in the list, and writes it.
TEST_F(FusedSource, EveryDtypeIsReadAndWritten) {
  std::vector<TensorType> inputs;
  std::vector<std::string> body;
  std::vector<int64_t> outputs;
  for (size_t i = 0; i < std::size(kAll); ++i) {
    inputs.push_back({kAll[i], {64, 128}});
    const std::string next(name_of(kAll[(i + 1) % std::size(kAll)]));
    body.push_back("cast %" + std::to_string(i) + " {dtype=" + next + "}");
    outputs.push_back(static_cast<int64_t>(std::size(kAll) + i));
  }
  EXPECT_NO_THROW(compile(source_of(fused_program(body, outputs, inputs)), 9, 0));
}

TEST_F(FusedSource, ProgramsCompile) {
  for (const FusedProgram& program : programs()) EXPECT_NO_THROW(compile(source_of(program), 9, 0));
}

// Gives the test a kernel cache of its own.
class CacheFolder {
 public:
  CacheFolder() {
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    std::filesystem::remove_all(folder_);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~CacheFolder() {
    std::filesystem::remove_all(folder_);
    if (before_.empty())
      unsetenv("XDG_CACHE_HOME");
    else
      setenv("XDG_CACHE_HOME", before_.c_str(), 1);
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "genesis"))
      all.push_back(entry.path());
    return all;
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("genesis_cache_" + std::to_string(getpid()));
  std::string before_;
};

TEST_F(FusedSource, CompiledKernelsAreKeptAndDamageIsRepaired) {
  const CacheFolder cache;
  const std::string source = source_of(programs()[0]), code = compile(source, 9, 0);
  ASSERT_EQ(cache.files().size(), 1u);
  const auto file = cache.files()[0];
  const auto size = std::filesystem::file_size(file);
  for (const uint64_t left : {uint64_t{0}, uint64_t{20}, size - 1}) {
    std::filesystem::resize_file(file, left);
    EXPECT_EQ(compile(source, 9, 0), code);
    EXPECT_EQ(std::filesystem::file_size(file), size) << "not repaired";
  }
  // A second compilation uses the cached file.
  const auto written = std::filesystem::last_write_time(file);
  EXPECT_EQ(compile(source, 9, 0), code);
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  EXPECT_NE(compile(source, 8, 0), code) << "another chip got the same code";
  EXPECT_EQ(cache.files().size(), 2u);
}

TEST_F(FusedSource, RefusedSourceIsAnErrorWithNvrtcsWords) {
  try {
    compile("int kernel() { return missing; }", 9, 0);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("missing"), std::string::npos) << error.message();
  }
}

TEST(FusedPlan, DenseProgramsTakePacksOfSixteenBytes) {
  const std::vector<TensorType> low(2, {DType::bf16, {4096, 4096}}), full(2, {DType::f32, {4096, 4096}});
  const FusedPlan a = plan_fused(fused_program({"add %0 %1"}, {2}, low));
  EXPECT_EQ(a.pack, 8);
  EXPECT_EQ(a.blocks * a.threads * a.pack * a.chunks, 4096 * 4096);
  const FusedPlan b = plan_fused(fused_program({"add %0 %1"}, {2}, full));
  EXPECT_EQ(b.pack, 4);
  EXPECT_EQ(b.blocks * b.threads * b.pack * b.chunks, 4096 * 4096);
}

TEST(FusedPlan, SourceOfDenseProgramsDoesNotDependOnSizes) {
  const auto source = [](int64_t n) {
    return source_of(fused_program({"add %0 %1"}, {2}, std::vector<TensorType>(2, {DType::f32, {n, 3}})));
  };
  EXPECT_EQ(source(5'000'000), source(7'000'001));
}

TEST(FusedPlan, BroadcastThatIsOutOfStepWithPacksGoesByElement) {
  const auto plan = [](int64_t columns) {
    return plan_fused(
        fused_program({"add %0 %1"}, {2}, {{DType::f32, {7, columns}}, {DType::f32, {columns}}}));
  };
  EXPECT_FALSE(plan(8).by_element);
  EXPECT_TRUE(plan(9).by_element);
  EXPECT_EQ(plan(9).pack, 4);
}

// Gathered inputs are packed too, so the widest of them limits the pack.
TEST(FusedPlan, GatheredInputsLimitThePack) {
  const FusedPlan plan = plan_fused(fused_program({"cast %1 {dtype=bf16}", "add %0 %2"}, {3},
                                                  {{DType::bf16, {2, 3, 7}}, {DType::f32, {3, 1}}}));
  EXPECT_TRUE(plan.by_element);
  EXPECT_EQ(plan.pack, 4);
}

TEST(FusedPlan, RowsGetAsManyThreadsAsTheyNeed) {
  const auto plan = [](int64_t columns) {
    return plan_fused(fused_program({"sum %0 {axes=(1), keep_dims=true}", "sub %0 %1"}, {2},
                                    {{DType::f32, {1000, columns}}}));
  };
  for (const int64_t columns : {1, 2, 3, 4, 7, 32, 100, 896, 4096, 16384, 16388, 151936}) {
    const FusedPlan p = plan(columns);
    SCOPED_TRACE(columns);
    EXPECT_EQ(columns % p.pack, 0);
    EXPECT_EQ(p.threads_per_row & (p.threads_per_row - 1), 0) << "reductions go by halves";
    EXPECT_GE(int64_t{p.threads_per_row} * p.pack * p.chunks, columns);
    EXPECT_GE(p.blocks * p.rows_per_block(), 1000);
    if (p.threads_per_row > 32) {
      EXPECT_EQ(p.rows_per_block(), 1);
    }
  }
  EXPECT_EQ(plan(1).threads_per_row, 1);
  EXPECT_EQ(plan(100).threads_per_row, 32);
  EXPECT_TRUE(plan(4096).in_registers);
  EXPECT_FALSE(plan(151936).in_registers);
}

TEST(FusedPlan, EmptyProgramsStartNothing) {
  const std::vector<TensorType> none(1, {DType::f32, {0, 3}});
  EXPECT_EQ(plan_fused(fused_program({"exp %0"}, {1}, none)).blocks, 0);
  EXPECT_EQ(plan_fused(fused_program({"sum %0 {axes=(1), keep_dims=true}", "sub %0 %1"}, {2}, none)).blocks,
            0);
}

}  // namespace
}  // namespace genesis::cuda
