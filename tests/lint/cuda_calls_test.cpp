// Tests that allocations and waits go through backends/cuda/runtime/runtime.h, which counts them, so that the counts
// of the steady-state tests are complete.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

namespace {

namespace fs = std::filesystem;

TEST(CudaCalls, OnlyTheRuntimeAllocatesAndWaits) {
  const std::regex forbidden(
      "cuda(Malloc|Free|HostAlloc|HostRegister|MemPool|Memcpy|Memset|StreamSynchronize|EventSynchronize|"
      "DeviceSynchronize|StreamCreate|EventCreate|GraphInstantiate|GraphLaunch)\\w*\\(");
  const std::regex allowed("cuda(MemcpyAsync|Memcpy2DAsync|MemsetAsync)\\($");
  int files = 0;
  for (const char* folder : {"backends/cuda", "executor", "models", "tools"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      if (entry.path().stem() == "runtime" && entry.path().parent_path().filename() == "runtime") continue;
      ++files;
      std::ifstream in(entry.path());
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        for (std::sregex_iterator at(line.begin(), line.end(), forbidden), end; at != end; ++at)
          EXPECT_TRUE(std::regex_match(at->str(), allowed))
              << entry.path().string() << ":" << number << ": " << at->str()
              << ") belongs into backends/cuda/runtime/runtime.cpp";
      }
    }
  EXPECT_GT(files, 80) << "the sources were not found under " << GENESIS_SOURCE_ROOT;
}

}  // namespace
