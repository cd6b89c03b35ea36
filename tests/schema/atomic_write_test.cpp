// Tests that a failed write leaves the old file intact and no other file beside it.
#include "schema/file/io/atomic_write.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "schema/file/io/atomic_folder.h"
#include "schema/file/io/registered_temporaries.h"
#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/file/writer.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

constexpr int64_t kElements = int64_t{1} << 20;  // 4 MiB of weights

// Returns a model whose weights are all `value`, so that a mixture of two saves would show.
std::unique_ptr<Model> uniform_model(float value, int64_t elements = kElements) {
  auto model = std::make_unique<Model>();
  const Tensor weight =
      Tensor::of<float>({elements}, std::vector<float>(static_cast<size_t>(elements), value));
  model->add_state({"w", weight.type(), StateRole::kParameter, true, weight});
  return model;
}

float first_weight(const std::filesystem::path& path) {
  const auto model = load_model(path, {.verify = Verify::kFull});
  return model->state(0).initial.as<float>()[0];
}

void expect_says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " / " << message;
}

// Runs `body` in a child process after `setup`. Returns the message of the Error it threw.
std::string error_in_child(const std::function<void()>& setup, const std::function<void()>& body) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    setup();
    const std::string message = error_of(body);
    (void)!::write(pipe_ends[1], message.data(), message.size());
    ::_exit(0);
  }
  ::close(pipe_ends[1]);
  std::string said(4096, '\0');
  const ssize_t count = ::read(pipe_ends[0], said.data(), said.size());
  ::close(pipe_ends[0]);
  ::waitpid(child, nullptr, 0);
  said.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return said;
}

TEST(AtomicWrite, UnwritablePlacesAreNamed) {
  const TemporaryFolder folder;
  const auto model = uniform_model(1, 4);
  expect_says(error_of([&] { save_model(*model, folder / "no" / "m.genesis"); }),
              {"cannot write '", "/no/m.genesis'", "No such file or directory"});
  expect_says(error_of([&] { save_model(*model, folder.path()); }), {"it is a folder"});
  expect_says(error_of([&] { save_model(*model, "/proc/m.genesis"); }), {"cannot write '/proc/m.genesis'"});
  expect_says(error_of([&] { save_model(*model, "/dev/null"); }),
              {"cannot write '/dev/null': it is a device"});
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(folder.count_files(), 0U);
}

TEST(AtomicWrite, NoPermissionLeavesNothing) {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  const auto model = uniform_model(1, 4);
  const auto become_nobody = [] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);  // root may write anywhere
  };
  expect_says(error_in_child(become_nobody, [&] { save_model(*model, folder / "m.genesis"); }),
              {"cannot write '", "/m.genesis'", "Permission denied"});
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  EXPECT_EQ(folder.count_files(), 0U);
}

TEST(AtomicWrite, KeepsLinksAndPermissions) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "real");
  save_model(*uniform_model(1, 4), folder / "real" / "m.genesis");
  std::filesystem::permissions(folder / "real" / "m.genesis", std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("real/m.genesis", folder / "latest");
  save_model(*uniform_model(2, 4), folder / "latest");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "latest"));
  EXPECT_EQ(first_weight(folder / "real" / "m.genesis"), 2.0F);
  EXPECT_EQ(std::filesystem::status(folder / "real" / "m.genesis").permissions(),
            std::filesystem::perms::owner_all);
}

TEST(AtomicWrite, DoesNotFollowALinkToNothing) {
  const TemporaryFolder folder, other;
  std::filesystem::create_symlink(other / "outside", folder / "link");
  expect_says(error_of([&] { save_model(*uniform_model(1, 4), folder / "link"); }),
              {"link", "symbolic link", "outside", "remove the link"});
  expect_says(error_of([&] { check_can_write_atomically(folder / "link"); }), {"symbolic link"});
  expect_says(error_of([&] { AtomicFolder(folder / "link", true, [](const auto&) { return true; }); }),
              {"symbolic link"});
  EXPECT_EQ(other.count_files(), 0U);
  EXPECT_EQ(folder.count_files(), 1U);
}

// A name that Genesis makes up never follows a link that exists there.
TEST(AtomicWrite, ReplacesALinkWhereItIsTold) {
  const TemporaryFolder folder, other;
  write_bytes(other / "file", "of another");
  std::filesystem::create_symlink(other / "file", folder / "live");
  std::filesystem::create_symlink(other / "nothing", folder / "dangling");
  for (const char* name : {"live", "dangling"}) {
    write_file_atomically(folder / name, "mine", LinkAtName::kReplaced);
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(folder / name))) << name;
    EXPECT_EQ(read_bytes(folder / name), "mine");
  }
  EXPECT_EQ(read_bytes(other / "file"), "of another");
  EXPECT_EQ(other.count_files(), 1U);
}

TEST(AtomicWrite, CanBeAskedForAheadOfTheWork) {
  const TemporaryFolder folder;
  write_bytes(folder / "old", "old");
  check_can_write_atomically(folder / "old");
  check_can_write_atomically(folder / "new");
  EXPECT_EQ(read_bytes(folder / "old"), "old");
  EXPECT_EQ(folder.count_files(), 1U);
  expect_says(error_of([&] { check_can_write_atomically("/dev/null"); }), {"/dev/null", "a device"});
  expect_says(error_of([&] { check_can_write_atomically(folder / "none" / "x"); }), {"none", "No such file"});
  expect_says(error_of([&] { check_can_write_atomically("/proc/self/x"); }), {"/proc/self/x"});
}

TEST(AtomicWrite, RemovesWhatAKilledWriterLeftButNotALivingOnes) {
  const TemporaryFolder folder;
  write_bytes(folder / ".m.genesis.tmp-dead", "left behind");
  write_bytes(folder / ".other.genesis.tmp-dead", "not ours");
  AtomicFile living(folder / "m.genesis", 3);
  save_model(*uniform_model(5, 4), folder / "m.genesis");
  living.write(std::as_bytes(std::span("abc", 3)));
  living.commit();
  EXPECT_EQ(read_bytes(folder / "m.genesis"), "abc");
  EXPECT_FALSE(std::filesystem::exists(folder / ".m.genesis.tmp-dead"));
  EXPECT_TRUE(std::filesystem::exists(folder / ".other.genesis.tmp-dead"));
  EXPECT_EQ(folder.count_files(), 2U);
}

TEST(AtomicWrite, ALimitOnFileSizesLeavesTheOldFile) {
  const TemporaryFolder folder;
  save_model(*uniform_model(1), folder / "m.genesis");
  const auto next = uniform_model(2);
  const auto limit_files = [] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  const std::string said = error_in_child(limit_files, [&] { save_model(*next, folder / "m.genesis"); });
  expect_says(said, {"cannot write '", "m.genesis'", "File too large", "4198", "bytes needed", "available",
                     "ulimit -f", "unchanged"});
  EXPECT_EQ(first_weight(folder / "m.genesis"), 1.0F);
  EXPECT_EQ(folder.count_files(), 1U);
}

// A small disk of its own, if the machine allows mounting one.
class SmallDisk {
 public:
  explicit SmallDisk(const std::filesystem::path& at) : at_(at) {
    std::filesystem::create_directory(at);
    mounted_ = ::mount("tmpfs", at.c_str(), "tmpfs", 0, "size=6m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path at_;
  bool mounted_;
};

TEST(AtomicWrite, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  const SmallDisk disk(folder / "disk");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small disk is not permitted here";
  const auto path = folder / "disk" / "m.genesis";
  save_model(*uniform_model(1), path);
  expect_says(error_of([&] { save_model(*uniform_model(2), path); }),
              {"cannot write '", "No space left on device", "bytes needed", "available", "unchanged"});
  EXPECT_EQ(first_weight(path), 1.0F);
  const Tensor big = Tensor::zeros({DType::f32, {kElements}});
  EXPECT_NE(error_of([&] { write_npy(folder / "disk" / "a.npy", big); }), "");
  EXPECT_NE(error_of([&] { write_safetensors(folder / "disk" / "a.safetensors", {{{"w", big}}, {}}); }), "");
  const std::filesystem::directory_iterator left(folder / "disk");
  EXPECT_EQ(std::distance(begin(left), end(left)), 1);
}

// Saves 1, 2, 3, ... over the same file until it is killed.
[[noreturn]] void save_forever(const std::filesystem::path& path, float from) {
  for (float value = from;; ++value) save_model(*uniform_model(value), path);
}

TEST(AtomicWrite, KillingASaveAtAnyTimeLeavesAWholeFile) {
  const TemporaryFolder folder;
  const auto path = folder / "m.genesis";
  save_model(*uniform_model(0), path);
  float last = 0;
  for (int round = 0; round < 40 || (last == 0 && round < 100); ++round) {
    const pid_t child = ::fork();
    if (child == 0) save_forever(path, last + 1);
    const int more = std::max(0, round - 39) * 20000;  // for machines too slow for a single save
    std::this_thread::sleep_for(std::chrono::microseconds(500 + round * 977 % 30000 + more));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto model = load_model(path, {.verify = Verify::kFull});
    const auto weights = model->state(0).initial.as<float>();
    ASSERT_GE(weights[0], last);
    ASSERT_EQ(weights[0], weights[kElements - 1]);
    last = weights[0];
  }
  EXPECT_GT(last, 0.0F);
  save_model(*uniform_model(-1), path);  // also removes the leftovers of killed saves
  EXPECT_EQ(folder.count_files(), 1U);
}

TEST(AtomicFile, IsRemovedWhereASignalEndsTheWriter) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("genesis-registered-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  {
    AtomicFolder around(folder / "out", false, [](const auto&) { return false; });
    write_file_atomically(around.files() / "done", "text");
    AtomicFile file(folder / "file", 5);
    remove_registered_temporaries();
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  write_file_atomically(folder / "kept", "text");
  remove_registered_temporaries();
  EXPECT_TRUE(std::filesystem::exists(folder / "kept"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace genesis
