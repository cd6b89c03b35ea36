// Tests loading files while somebody overwrites them: each load gives a model or an Error, and never uses unchecked
// bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

// Calls write(fd, round) in a loop on a thread of its own while it exists.
template <class Write>
class Overwriting {
 public:
  Overwriting(const std::filesystem::path& path, Write write)
      : thread_([this, path, write] {
          const int fd = ::open(path.c_str(), O_WRONLY);
          for (uint64_t round = 0; !done_; ++round) write(fd, round);
          ::close(fd);
        }) {}
  ~Overwriting() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

void write_at(int fd, const std::string& bytes, size_t from, size_t count) {
  ASSERT_EQ(::pwrite(fd, bytes.data() + from, count, static_cast<off_t>(from)), static_cast<ssize_t>(count));
}

struct Loads {
  int good = 0, refused = 0;
};

template <class Load>
Loads load_many(int times, const Load& load) {
  Loads loads;
  for (int i = 0; i < times; ++i) {
    try {
      load();
      ++loads.good;
    } catch (const Error&) {
      ++loads.refused;
    }
  }
  return loads;
}

// Returns a function that writes undamaged bytes, then random ones in their middle, and then undamaged bytes again.
auto damage_and_mend(const std::string& bytes, size_t first) {
  return [bytes, first](int fd, uint64_t round) {
    std::mt19937_64 random(round);
    std::string damaged = bytes;
    for (int i = 0; i < 32; ++i)
      damaged[first + random() % (damaged.size() - first)] = static_cast<char>(random());
    write_at(fd, damaged, first, damaged.size() - first);
    write_at(fd, bytes, first, bytes.size() - first);
  };
}

TEST(FileOverwritten, WhileAModelIsLoaded) {
  const TemporaryFolder folder;
  const auto path = folder / "m.genesis";
  const std::string bytes = file_of(*rich_model());
  write_bytes(path, bytes);
  const Overwriting writer(path, damage_and_mend(bytes, 0));
  const Loads loads = load_many(2000, [&] { load_model(path); });
  EXPECT_GT(loads.refused, 0);
}

// The file is truncated and written again, as `cp` does it. The model has no data: reading data past the end of the
// file would be a bus error, as the documentation says.
TEST(FileOverwritten, CutShortWhileAModelIsLoaded) {
  const TemporaryFolder folder;
  const auto path = folder / "m.genesis";
  Model model;
  Graph& graph = model.add_entry("main");
  for (int i = 0; i < 200; ++i) graph.add_input("x" + std::to_string(i), {DType::f32, {2, 3}});
  const std::string bytes = file_of(model);
  write_bytes(path, bytes);
  const Overwriting writer(path, [bytes](int fd, uint64_t round) {
    ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(round * 97 % bytes.size())), 0);
    write_at(fd, bytes, 0, bytes.size());
  });
  load_many(2000, [&] { load_model(path); });
}

TEST(FileOverwritten, WhileArraysAreRead) {
  const TemporaryFolder folder;
  const Tensor tensor = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  write_npy(folder / "a.npy", tensor);
  write_safetensors(folder / "a.safetensors", {{{"a", tensor}, {"b", tensor}}, {{"format", "pt"}}});
  const std::string npy = read_bytes(folder / "a.npy"), safetensors = read_bytes(folder / "a.safetensors");
  const Overwriting npy_writer(folder / "a.npy", damage_and_mend(npy, 0));
  const Overwriting safetensors_writer(folder / "a.safetensors", damage_and_mend(safetensors, 8));
  load_many(1000, [&] { read_npy(folder / "a.npy"); });
  load_many(1000, [&] { read_safetensors(folder / "a.safetensors"); });
}

}  // namespace
}  // namespace genesis
