// Tests that `meson install` gives tools that find their library, and a library that a program outside the tree can
// use with only pkg-config or CMake; and that all of it stays small.
#include <unistd.h>

#include <map>
#include <regex>
#include <set>

#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

constexpr const char* kProgram = R"(#include <cstdio>
#include <genesis/genesis.h>
#include "schema/core/tensor.h"
using namespace genesis;
int main() {
  auto model = std::make_shared<Model>();
  const nn::Linear fc(Scope(*model) / "fc", 1, 1, {.bias = false, .init = init::constant(kTwo)});
  GraphBuilder g(*model, "loss", Mode::kTrain);
  const Value y = fc(g.input("x", DType::f32, {symbol("n"), 1}));
  g.output("y", y);
  g.output("loss", mean(y));
  passes::add_training(*model, {.optimizer = optim::SGD{.lr = 1}});
  Session session(model, {.device = "cpu"});
  const NamedTensors batch{{"x", Tensor::of<float>({{1}, {20.5}})}};
  const Tensor out = session.run("loss", batch).at("y");
  std::printf("%g %g\n", out.as<float>()[0], out.as<float>()[1]);
  session.run("train_step", batch);
  std::printf("%g\n", session.state("fc.weight").item<double>());
}
)";

constexpr const char* kItsOutput = "2 41\n-8.75\n";

class Install : public ToolTest {
 protected:
  void SetUp() override {
    if (kIsSanitized) GTEST_SKIP() << "a sanitizer's library is no part of what is installed, nor small";
  }
  // Writes a program in a folder with headers named like Genesis' own, which the compiler finds first.
  void write_program() {
    write_text(path("program.cpp"), kProgram);
    for (const char* name :
         {"schema/core/tensor.h", "schema/core/error.h", "builder/scope.h", "executor/session.h"}) {
      fs::create_directories(fs::path(path(name)).parent_path());
      write_text(path(name), "#pragma once\nconstexpr double kTwo = 2;\n");
    }
  }
  static Process shell(const std::string& command) {
    ProcessOptions options;
    options.timeout_seconds = 3 * kHangs;
    return run_process({"sh", "-c", command}, options);
  }
  void install() {
    expect_ok(shell("meson install --no-rebuild -C " GENESIS_BUILD_ROOT " --destdir " + path("root")));
  }
  // `./dev test` installs what tests need.
  static std::string missing(const std::string& program) {
    return program + " is not there: `./dev test` installs it, else apt-get install " +
           (program.starts_with("dpkg") ? "dpkg-dev" : program);
  }
  // Lets a program find the installed library.
  std::string with_library() const {
    return "LD_LIBRARY_PATH=" + find("libgenesis.so").parent_path().string() +
           "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ";
  }
  // Returns the installed path of the file called `name`.
  fs::path find(const std::string& name) const {
    for (const auto& entry : fs::recursive_directory_iterator(folder() / "root"))
      if (entry.path().filename() == name) return entry.path();
    return {};
  }
};

// Returns the text of each header by its path below `folder`.
std::map<std::string, std::string> texts_of(const fs::path& folder) {
  std::map<std::string, std::string> texts;
  for (const std::string& file : files_in(folder))
    if (file.ends_with(".h")) texts[file] = read_text(folder / file);
  return texts;
}

const std::regex kStandardInclude("#include <[a-z_]+>");

// Returns the lines that include a standard header, each once.
std::string standard_includes(const std::map<std::string, std::string>& texts) {
  std::set<std::string> lines;
  for (const auto& [file, text] : texts)
    for (std::sregex_iterator it(text.begin(), text.end(), kStandardInclude), end; it != end; ++it)
      lines.insert(it->str() + "\n");
  std::string all;
  for (const std::string& line : lines) all += line;
  return all;
}

// Returns a header and all that it includes, directly or not.
std::set<std::string> headers_behind(const std::string& door,
                                     const std::map<std::string, std::string>& texts) {
  static const std::regex kInclude("#include <genesis/([^>]*)>");
  std::set<std::string> found;
  std::vector<std::string> waiting = {door};
  while (!waiting.empty()) {
    const std::string name = waiting.back();
    waiting.pop_back();
    if (!found.insert(name).second || !texts.contains(name)) continue;
    const std::string& text = texts.at(name);
    for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it)
      waiting.push_back((*it)[1]);
  }
  return found;
}

// Returns the arguments of one compilation a line, which together read every header. Before a header they read only standard headers
// and those that it includes itself, so that it is read as if it were alone.
std::string headers_to_compile(const std::map<std::string, std::string>& texts) {
  using Behind = std::pair<std::string, std::set<std::string>>;
  std::vector<Behind> headers;
  for (const auto& [file, text] : texts) headers.emplace_back(file, headers_behind(file, texts));
  std::ranges::stable_sort(headers, std::ranges::greater{},
                           [](const Behind& one) { return one.second.size(); });
  std::vector<std::vector<Behind>> rows;  // from the last header that is read to the first
  for (Behind& header : headers) {
    std::vector<Behind>* found = nullptr;
    for (std::vector<Behind>& row : rows)
      if (row.back().second.contains(header.first) &&
          (!found || row.back().second.size() < found->back().second.size()))
        found = &row;
    if (!found) found = &rows.emplace_back();
    found->push_back(std::move(header));
  }
  std::string lines;
  for (const std::vector<Behind>& row : rows) {
    for (auto header = row.rbegin(); header != row.rend(); ++header)
      lines += " -include genesis/" + header->first;  // a blank at the end would join two lines
    lines += "\n";
  }
  return lines;
}

constexpr const char* kTools[] = {"genesis-build", "genesis-opt", "genesis-run", "genesis-viz"};

TEST_F(Install, ToolsFindTheirLibraryAndAllIsSmall) {
  if (shell("command -v meson").code != 0) GTEST_SKIP() << "meson is not in PATH";
  install();
  uintmax_t bytes = fs::file_size(fs::canonical(find("libgenesis.so")));
  for (const char* tool : kTools) {
    EXPECT_EQ(expect_ok(run_process({find(tool).string(), "--version"})), GENESIS_VERSION "\n");
    bytes += fs::file_size(find(tool));
  }
  EXPECT_LE(bytes, GENESIS_HAVE_CUDA ? 60u << 20 : 15u << 20) << "the four tools and the library";
  RecordProperty("installed_bytes", std::to_string(bytes));
}

// A static build itself would take as long as the shared one. So the test checks that meson accepts it, and that a
// statically linked tool works.
TEST_F(Install, AToolStandsAloneInAStaticBuild) {
  const std::string alone = GENESIS_BUILD_ROOT "/tests/genesis-run-alone";
  EXPECT_EQ(expect_ok(run_process({alone, "--version"})), GENESIS_VERSION "\n");
  EXPECT_EQ(expect_ok(shell("ldd " + alone)).find("libgenesis"), std::string::npos);
  expect_ok(run_process({alone, "infer", tiny("mlp.genesis"), "--size", "batch=1"}));
  if (shell("command -v meson").code != 0) GTEST_SKIP() << missing("meson");
  expect_ok(shell("meson setup " + path("static") +
                  " " GENESIS_SOURCE_ROOT " -Ddefault_library=static -Dcuda=disabled -Dtests=false"));
  const std::string rules = read_text(path("static/build.ninja"));
  EXPECT_EQ(rules.find("libgenesis.so"), std::string::npos);
  EXPECT_NE(rules.find("libgenesis.a"), std::string::npos);
}

TEST_F(Install, CMakeFindsIt) {
  for (const char* program : {"meson", "cmake", "c++"})
    if (shell(std::string("command -v ") + program).code != 0) GTEST_SKIP() << missing(program);
  install();
  write_program();
  write_text(path("CMakeLists.txt"),
             "cmake_minimum_required(VERSION 3.18)\nproject(program CXX)\nfind_package(genesis REQUIRED)\n"
             "add_executable(program program.cpp)\ntarget_include_directories(program BEFORE PRIVATE .)\n"
             "target_link_libraries(program genesis::genesis)\n");
  expect_ok(shell("cd " + folder().string() + " && cmake -S . -B made -Dgenesis_DIR=" +
                  find("genesisConfig.cmake").parent_path().string() + " && cmake --build made"));
  EXPECT_EQ(expect_ok(shell(with_library() + path("made/program"))), kItsOutput);
}

TEST_F(Install, AProgramOutsideTheTreeBuildsAndRuns) {
  for (const char* program : {"meson", "pkg-config", "c++"})
    if (shell(std::string("command -v ") + program).code != 0) GTEST_SKIP() << program << " is not in PATH";
  install();
  const fs::path pc = find("genesis.pc");
  ASSERT_FALSE(pc.empty());
  EXPECT_EQ(find("libgenesis.so").parent_path(), pc.parent_path().parent_path());
  // The installed tree is in a folder of the test, so the prefix is given explicitly.
  const fs::path headers = find("session.h").parent_path().parent_path();  // PREFIX/include/genesis
  const std::string config =
      "PKG_CONFIG_PATH=" + pc.parent_path().string() +
      " pkg-config --define-variable=prefix=" + headers.parent_path().parent_path().string();
  EXPECT_EQ(expect_ok(shell(config + " --modversion genesis")), GENESIS_VERSION "\n");
  write_program();
  expect_ok(shell("cd " + folder().string() + " && c++ -Wall -Wextra -Werror -I. program.cpp -o program $(" +
                  config + " --cflags --libs genesis)"));
  EXPECT_EQ(expect_ok(shell(with_library() + path("program"))), kItsOutput);

  // The library's dependencies come with it: no other pkg-config file is needed.
  const std::string text = read_text(pc);
  EXPECT_EQ(text.find("Requires.private"), std::string::npos) << text;

  // Every header compiles alone, with only standard headers before it: they are precompiled here, which saves four fifths of the
  // time, and tests/lint/standard_headers_test.cpp finds those that a header does not include itself.
  const std::map<std::string, std::string> texts = texts_of(headers);
  write_text(path("arguments"), headers_to_compile(texts));
  write_text(path("standard.h"), standard_includes(texts));
  const std::string flags = expect_ok(shell(config + " --cflags genesis"));
  const std::string compiler = "c++ -I. " + flags.substr(0, flags.find('\n')) + " -x c++";
  expect_ok(shell("cd " + folder().string() + " && " + compiler +
                  "-header standard.h && xargs -P $(nproc) -L 1 " + compiler +
                  " -fsyntax-only /dev/null -include standard.h <arguments"));
}

// A plugin of the examples is compiled with the installed headers alone, and its op checked. One that was made for another build is
// refused. A stand-in takes the place of its kernel for GPUs.
TEST_F(Install, APluginBuildsAndIsLockedToTheBuild) {
  for (const char* program : {"meson", "pkg-config", "c++"})
    if (shell(std::string("command -v ") + program).code != 0) GTEST_SKIP() << missing(program);
  install();
  const fs::path pc = find("genesis.pc"), headers = find("session.h").parent_path().parent_path();
  write_text(path("launch.cpp"), "void launch_cube(const float*, float*, long, float, void*) {}\n");
  const std::string compile = "cd " + folder().string() +
                              " && c++ -shared -fPIC launch.cpp " GENESIS_SOURCE_ROOT
                              "/examples/plugin/cube_gpu.cpp $(PKG_CONFIG_PATH=" +
                              pc.parent_path().string() + " pkg-config --define-variable=prefix=" +
                              headers.parent_path().parent_path().string() + " --cflags --libs genesis) -o ";
  expect_ok(shell(compile + "libcube.so"));
  const std::string with_it = find("genesis-run").string() + " --plugin ", model = tiny("mlp.genesis");
  expect_ok(shell(with_it + path("libcube.so") + " info " + model +
                  " --device cpu --size batch=1 --disable kernel:cube_gpu.plain"));
  const std::string check = with_it + path("libcube.so") + " check-op cube_gpu --set scale=0.5";
  EXPECT_NE(expect_ok(shell(check)).find("cube_gpu: 76 checks, all right"), std::string::npos);
  EXPECT_NE(shell(check + " --input f32[2] --device cuda:99").err.find("no device 'cuda:99'"),
            std::string::npos);
  // At 0, relu has no gradient that differences could agree with.
  const Process wrong = shell(find("genesis-run").string() + " check-op relu --input f32[2]:0:0");
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.out.find("wrong: relu(f64[2]): element 0 of dx0 is 0, expected 0.25"), std::string::npos)
      << wrong.out;
  write_text(
      headers / "schema/build_id.h",
      "#pragma once\nnamespace genesis {\ninline constexpr const char* kBuildId = \"0.0.9-old\";\n}\n");
  expect_ok(shell(compile + "libother.so"));
  const Process refused = shell(with_it + path("libother.so") + " info " + model);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(
      refused.err.find("made for the build 0.0.9-old of Genesis, and this is the build " GENESIS_VERSION "-"),
      std::string::npos)
      << refused.err;
}

// The wheel brings the library and those that it needs; a bare Python runs the example with what the wheel contains.
TEST_F(Install, AWheelBringsWhatItNeeds) {
  for (const char* program : {"python3", "strip", "readelf", "objdump"})
    if (shell(std::string("command -v ") + program).code != 0) GTEST_SKIP() << missing(program);
  std::string wheel = expect_ok(
      shell("python3 " GENESIS_SOURCE_ROOT "/packaging/wheel.py " GENESIS_BUILD_ROOT " " + path("out")));
  wheel.resize(wheel.find('\n'));
  EXPECT_NE(wheel.find("genesis-" GENESIS_VERSION "-py3-none-manylinux_2_"), std::string::npos) << wheel;
  EXPECT_LE(fs::file_size(wheel), GENESIS_HAVE_CUDA ? 40u << 20 : 12u << 20);
  RecordProperty("wheel_bytes", std::to_string(fs::file_size(wheel)));
  expect_ok(shell("python3 -m zipfile -e " + wheel + " " + path("site")));
  const Process program = shell("env -u GENESIS_LIBRARY PYTHONPATH=" + path("site") +
                                " python3 " GENESIS_SOURCE_ROOT "/examples/python_program.py");
  EXPECT_EQ(program.out.find("loss 0.00"), 0u) << program.out << program.err;
  EXPECT_NE(read_text(path("site/genesis/ops.pyi")).find("def softmax("), std::string::npos);
}

// <genesis/genesis.h> and what it includes are installed, with the headers of C and of plugins, and nothing else. There is one folder of headers, so no other library's
// names can collide. Of other libraries the headers need only those that genesis.pc and the CMake file name.
TEST_F(Install, HeadersAreThoseThatTheDoorIncludes) {
  if (shell("command -v meson").code != 0) GTEST_SKIP() << "meson is not in PATH";
  install();
  const fs::path headers = find("session.h").parent_path().parent_path();
  EXPECT_EQ(headers.filename(), "genesis");
  for (const auto& entry : fs::directory_iterator(headers.parent_path())) EXPECT_EQ(entry.path(), headers);
  const std::map<std::string, std::string> texts = texts_of(headers);
  std::set<std::string> included = {"genesis.h", "genesis_c.h", "plugin.h"}, others;
  static const std::regex kInclude("#include <(genesis/)?([^>]*)>");
  for (const auto& [file, text] : texts) {
    EXPECT_EQ(text.find("\n#include \""), std::string::npos) << file << " includes by a short name";
    for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it) {
      const std::string name = (*it)[2];
      const bool is_standard = name.find_first_of("/.") == std::string::npos;  // <vector>
      if (!is_standard) ((*it)[1].matched ? included : others).insert(name);
    }
  }
  std::set<std::string> installed;
  for (const auto& [file, text] : texts) installed.insert(file);
  EXPECT_EQ(installed, included);
  const size_t read = headers_behind("genesis.h", texts).size();
  EXPECT_LE(read, 130u) << "a program that includes <genesis/genesis.h> reads " << read << " headers";
  RecordProperty("installed_headers", static_cast<int>(installed.size()));
  EXPECT_EQ(others, (std::set<std::string>{"fmt/core.h", "stddef.h", "stdint.h", "unistd.h"}))
      << "genesis.pc and genesis-config.cmake.in name fmt";
  EXPECT_NE(read_text(find("genesis.pc")).find("Requires: fmt\n"), std::string::npos);
  EXPECT_NE(read_text(find("genesisConfig.cmake")).find("find_dependency(fmt)"), std::string::npos);
}

// A separate root with its own list of packages, in which dpkg installs as on this machine.
class OtherRoot {
 public:
  explicit OtherRoot(const fs::path& root) : root_(root) {
    for (const char* folder : {"info", "updates", "triggers"}) fs::create_directories(lists() / folder);
    has_installed("");
  }
  // Sets the packages that dpkg considers installed, in the format of its file `status`.
  void has_installed(const std::string& status) const { write_text(lists() / "status", status); }
  void has_what_this_machine_has() const { has_installed(read_text("/var/lib/dpkg/status")); }
  Process dpkg(const Words& words) const {
    return run_process(
        Words{"dpkg", "--instdir=" + root_.string(), "--admindir=" + lists().string(), "--log=/dev/null"} +
        words);
  }
  std::set<std::string> files_of_packages() const {
    std::set<std::string> files;
    for (const std::string& file : files_in(root_))
      if (!file.starts_with("var")) files.insert(file);
    for (const auto& entry : fs::directory_iterator(lists() / "info")) {
      const std::string name = entry.path().filename();
      if (name.starts_with("genesis")) files.insert(name);
    }
    return files;
  }
  std::string tool(const std::string& name) const { return (root_ / "usr/bin" / name).string(); }

 private:
  fs::path lists() const { return root_ / "var/lib/dpkg"; }
  fs::path root_;
};

// Installs with the packages of this machine, and checks that the tools work from there.
void expect_installs_and_leaves_nothing(const std::string& package, const fs::path& folder) {
  const OtherRoot root(folder / "machine");
  const Process bare = root.dpkg({"--install", package});
  EXPECT_NE(bare.code, 0);
  EXPECT_NE(bare.err.find("genesis depends on libc6"), std::string::npos) << bare.err;
  root.has_what_this_machine_has();
  expect_ok(root.dpkg({"--install", package}));
  EXPECT_EQ(expect_ok(root.dpkg({"--verify", "genesis"})), "");
  const std::string model = (folder / "m.genesis").string();
  expect_ok(run_process({root.tool("genesis-build"), "mlp", "-o", model}));
  expect_ok(run_process({root.tool("genesis-run"), "infer", model, "--size", "batch=1"}));
  const std::string info = expect_ok(run_process({root.tool("genesis-run"), "info", model}));
  EXPECT_EQ(info.find("libgenesis_mpi.so is not there"), std::string::npos) << info;
  expect_ok(root.dpkg({"--purge", "genesis"}));
  EXPECT_EQ(root.files_of_packages(), std::set<std::string>());
}

// Returns the words that bash completes for `words`, the last of which is unfinished.
std::string completed(const fs::path& completion, const std::string& words) {
  return "bash -c 'source " + completion.string() + "; COMP_WORDS=(" + words +
         "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); " + "_genesis_run; echo ${COMPREPLY[@]}'";
}

TEST_F(Install, APackageHasToolsPagesCompletionsAndWhatItNeeds) {
  for (const char* program : {"meson", "dpkg-deb", "dpkg-shlibdeps"})
    if (shell(std::string("command -v ") + program).code != 0) GTEST_SKIP() << missing(program);
  // A lower compression than for a release takes a fifth of the time.
  const std::string script =
      "DPKG_DEB_COMPRESSOR_LEVEL=1 " GENESIS_SOURCE_ROOT "/packaging/deb.sh " GENESIS_BUILD_ROOT " ";
  std::string package = expect_ok(shell(script + path("out")));
  package.resize(package.find('\n'));
  const std::string needs = expect_ok(shell("dpkg-deb --field " + package + " Depends"));
  for (const char* library : {"libc6", "libtbb12", "libfmt"})
    EXPECT_NE(needs.find(library), std::string::npos) << needs;
  for (const char* library : {"cuda", "nvidia", "cudnn", "cublas"})
    EXPECT_EQ(needs.find(library), std::string::npos) << "opened when first needed\n" << needs;
  expect_ok(shell("dpkg-deb --extract " + package + " " + path("root")));
  for (const char* tool : kTools) {
    EXPECT_EQ(expect_ok(run_process({path("root/usr/bin/") + tool, "--version"})), GENESIS_VERSION "\n");
    EXPECT_NE(
        expect_ok(shell("zcat " + path("root/usr/share/man/man1/") + tool + ".1.gz")).find(".SH SYNOPSIS"),
        std::string::npos);
  }
  EXPECT_NE(read_text(find("genesis.pc")).find("prefix=/usr\n"), std::string::npos);
  const fs::path completion = folder() / "root/usr/share/bash-completion/completions/genesis-run";
  EXPECT_EQ(expect_ok(shell(completed(completion, "genesis-run tra"))), "train\n");
  EXPECT_EQ(expect_ok(shell(completed(completion, "genesis-run train --ste"))), "--steps\n");
  if (::geteuid() != 0) GTEST_SKIP() << "dpkg installs as root alone; all else of the package was looked at";
  expect_installs_and_leaves_nothing(package, folder());
}

// In its own folder as the root of the file system there is nothing but the archive, not even a shell for the scripts in bin/.
TEST_F(Install, AnArchiveRunsWithoutAnythingOfTheSystem) {
  for (const char* program : {"meson", "zstd"})
    if (shell(std::string("command -v ") + program).code != 0) GTEST_SKIP() << missing(program);
  expect_ok(shell("ZSTD_CLEVEL=1 " GENESIS_SOURCE_ROOT "/packaging/tarball.sh " GENESIS_BUILD_ROOT " " +
                  path("out")));
  expect_ok(shell("tar -C " + folder().string() + " -xf " + path("out") + "/*.zst"));
  const std::string root = path("genesis-" GENESIS_VERSION "-x86_64");
  EXPECT_EQ(expect_ok(run_process({root + "/bin/genesis-run", "--version"})), GENESIS_VERSION "\n");
  if (::geteuid() != 0) GTEST_SKIP() << "only root may choose another root of the file system";
  const auto run_alone = [&](const std::string& tool, const Words& words) {
    return expect_ok(run_process(
        Words{"chroot", root, "/lib/ld-linux-x86-64.so.2", "--library-path", "/lib", "/libexec/" + tool} +
        words));
  };
  run_alone("genesis-build", {"mlp", "-o", "/m.genesis"});
  EXPECT_NE(run_alone("genesis-run", {"infer", "/m.genesis", "--size", "batch=1"}), "");
}

// The key exists in a folder of this test alone. apt reads the folder as it would on another machine, and trusts that key only.
TEST_F(Install, AptReadsASignedFolderAndRefusesAnother) {
  for (const char* program : {"apt-ftparchive", "gpg", "dpkg-deb"})
    if (shell(std::string("command -v ") + program).code != 0) GTEST_SKIP() << missing(program);
  fs::create_directories(path("p/DEBIAN"));
  write_text(path("p/DEBIAN/control"),
             "Package: genesis\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: d\n");
  expect_ok(shell("dpkg-deb --build " + path("p") + " " + path("genesis_1_all.deb")));
  const std::string with_key =
      "mkdir -m 700 -p " + path("keys") + "; export GNUPGHOME=" + path("keys") + "; ";
  expect_ok(shell(with_key + "gpg --batch --passphrase '' --quick-generate-key a@example.com"));
  const std::string said =
      expect_ok(shell(with_key + GENESIS_SOURCE_ROOT "/packaging/apt.sh " + path("repo") +
                      " --key a@example.com " + path("genesis_1_all.deb")));
  shell(with_key + "gpgconf --kill gpg-agent");
  std::string line = said.substr(said.find("deb ["));
  line.replace(line.find("/usr/share/keyrings/"), 20, path("repo/"));
  write_text(path("sources.list"), line);
  const std::string settings = "Dir::Etc::SourceList \"" + path("sources.list") +
                               "\"; Dir::Etc::SourceParts \"-\"; Dir::State::Lists \"" + path("lists") +
                               "\"; Dir::Cache \"" + path("cache") + "\"; APT::Sandbox::User \"\";\n";
  write_text(path("apt.conf"), settings);
  const std::string update = "mkdir -p " + path("lists/partial") + " " + path("cache/archives/partial") +
                             "; export APT_CONFIG=" + path("apt.conf") +
                             "; apt-get update 2>&1 && apt-cache show genesis";
  EXPECT_NE(expect_ok(shell(update)).find("Filename: ./genesis_1_all.deb"), std::string::npos);
  expect_ok(shell("rm -r " + path("lists") + " && sed -i 's/^Label: Genesis/Label: Another/' " +
                  path("repo/InRelease")));
  EXPECT_NE(shell(update).out.find("BADSIG"), std::string::npos);
}

}  // namespace
}  // namespace genesis::testing
