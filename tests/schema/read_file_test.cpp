// Tests reading whole files as text: the result is all of the file, or an Error.
#include "schema/file/io/read_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "schema/core/error.h"
#include "schema/file/io/lfs_pointer.h"
#include "schema/file/io/mapped_file.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

std::string refusal(const std::filesystem::path& path) {
  try {
    read_whole_file(path);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(ReadFile, GivesAllBytes) {
  const TemporaryFolder folder;
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{65535}, size_t{65536}, size_t{65537}, size_t{1} << 20}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7);
    write_bytes(folder / "a", bytes);
    EXPECT_EQ(read_whole_file(folder / "a"), bytes) << size;
  }
}

TEST(ReadFile, ReadsPipesAndFilesOfTheKernel) {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(200'000, 'x');
  std::thread writer([&] { write_bytes(pipe, text); });
  EXPECT_EQ(read_whole_file(pipe), text);
  writer.join();
  EXPECT_FALSE(read_whole_file("/proc/self/status").empty());
}

TEST(ReadFile, RefusesAPipeWhereARegularFileHasToBe) {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe", file = folder / "file", link = folder / "link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  try {
    read_regular_file(pipe);
    ADD_FAILURE() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot read '" + pipe.string() + "': it is not a regular file");
  }
  write_bytes(file, "abc");
  std::filesystem::create_symlink(file, link);
  EXPECT_EQ(read_regular_file(link), "abc");
}

// The limit also holds for a pipe, which does not tell its size.
TEST(ReadFile, RefusesMoreThanItsLimit) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "file", pipe = folder / "pipe";
  write_bytes(file, "abcd");
  EXPECT_EQ(read_whole_file(file, 4), "abcd");
  EXPECT_EQ(read_regular_file(file, 4), "abcd");
  for (const auto& read : {read_whole_file, read_regular_file}) try {
      read(file, 3);
      ADD_FAILURE() << "it was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "cannot read '" + file.string() + "': 4 bytes are more than the limit of 3");
    }
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { write_bytes(pipe, "abcd"); });
  EXPECT_THROW(read_whole_file(pipe, 3), Error);
  writer.join();
}

TEST(ReadFile, SaysWhyItCannot) {
  EXPECT_EQ(refusal("/nowhere/a"), "cannot open '/nowhere/a': No such file or directory");
  EXPECT_EQ(refusal("/tmp"), "cannot read '/tmp': it is a folder");
  EXPECT_EQ(refusal("/proc/self/mem"), "cannot read '/proc/self/mem': Input/output error");
}

// A clone without git-lfs has three lines of text in place of a large file.
TEST(ReadFile, NamesAPointerOfGitLfsHoweverItIsRead) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "model.safetensors";
  const std::string start = "version https://git-lfs.github.com/spec/v1\noid sha256:", oid(64, '0'),
                    pointer = start + oid + "\nsize 123456\n";
  write_bytes(file, pointer);
  const auto readers = {+[](const std::filesystem::path& path) { read_whole_file(path); },
                        +[](const std::filesystem::path& path) { read_regular_file(path); },
                        +[](const std::filesystem::path& path) { MappedFile::open(path); },
                        +[](const std::filesystem::path& path) { check_is_no_lfs_pointer(path); }};
  const std::string expected = "'" + file.string() + "' is a pointer of git-lfs that stands for a file of 123456 bytes";
  for (const auto& read : readers) {
    const std::string message = error_of([&] { read(file); });
    EXPECT_TRUE(message.starts_with(expected)) << message;
    EXPECT_NE(message.find("git lfs pull"), std::string::npos) << message;
  }
  write_bytes(file, start + oid);
  EXPECT_NE(refusal(file).find("stands for a file:"), std::string::npos);
  write_bytes(file, "about pointers: " + pointer);
  EXPECT_EQ(refusal(file), "");
  write_bytes(file, pointer + std::string(1024, 'x'));  // longer than a pointer may be
  EXPECT_EQ(refusal(file), "");
  check_is_no_lfs_pointer(folder / "nothing");
}

// A file larger than the memory the process may use is an error, not a shorter file.
TEST(ReadFile, NeverGivesAPart) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space without limit";
#endif
  const TemporaryFolder folder;
  write_bytes(folder / "large", "");
  std::filesystem::resize_file(folder / "large", uintmax_t{8} << 30);  // takes no space on the disk
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{rlim_t{4} << 30, rlim_t{4} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
    const std::string message = refusal(folder / "large");
    ::_exit(message.find("does not fit into the memory") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace genesis
