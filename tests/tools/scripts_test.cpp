// Tests the first shell scripts that a newcomer meets: dev, examples/demo.sh and those of bench/. They run in a copy
// of the tree that has only scripts, with replacements of the package manager, meson, ninja and the tools, which
// record their calls.
#include <regex>

#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

const fs::path kSource = GENESIS_SOURCE_ROOT;

class Scripts : public ToolTest {
 protected:
  Scripts() {
    for (const char* script : {"dev", "examples/demo.sh", "bench/run.sh", "bench/gpu/run.sh"}) {
      fs::create_directories((folder() / "tree" / script).parent_path());
      fs::copy_file(kSource / script, folder() / "tree" / script);
    }
    fs::create_directories(folder() / "elsewhere");
    fs::create_directories(folder() / "bin");
    stand_in("dpkg-query", "echo 'install ok installed'");
    stand_in("apt-get", "exit 1");
    stand_in(
        "meson",
        "if [ $1 = setup ]; then mkdir -p $2; : > $2/build.ninja; fi\n"
        "if [ $1 = introspect ]; then echo '[{\"name\": \"ops\", \"suite\": []}, {\"name\": \"lint\"}]'; fi");
    stand_in("ninja",
             "echo \"ninja: Entering directory $2\"; echo '[1/2 0.1s] one'; echo '[2/2 0.2s] two'\n"
             "for tool in build opt run viz; do mkdir -p $2/tools; cp " +
                 path("bin/tool") + " $2/tools/genesis-$tool; done");
    stand_in("tool", "exit 7");
    stand_in("bible", "echo Genesis1:1 text");
  }

  // Runs a line of shell in `folder`, a separate folder.
  Process shell(const std::string& line) const {
    // Variables that select the build of the suite itself, as in CI, must not affect these builds.
    return run_process({"bash", "-c",
                        "unset GENESIS_BUILD_DIR GENESIS_SETUP; cd " + path("elsewhere") +
                            " && PATH=" + path("bin") + ":$PATH; " + line});
  }
  // Returns all calls of the replacements so far, one per line.
  std::string calls() const { return fs::exists(path("calls")) ? read_text(path("calls")) : ""; }
  bool called(const std::string& part) const { return calls().find(part) != std::string::npos; }

  void stand_in(const std::string& name, const std::string& body) const {
    write_text(path("bin/" + name),
               "#!/bin/sh\necho \"$(basename $0) $*\" >> " + path("calls") + "\n" + body + "\n");
    fs::permissions(path("bin/" + name), fs::perms::owner_all);
  }

  // Checks for exit code 2 and a line with the reason, before anything is configured or built.
  void expect_wrong_usage(const std::string& line, const std::string& part) const {
    const Process process = shell(line);
    EXPECT_EQ(process.code, 2) << line << "\n" << process.out << process.err;
    EXPECT_NE(process.err.find(part), std::string::npos) << line << "\n" << process.err;
    EXPECT_FALSE(called("ninja -C")) << line << "\n" << calls();
  }
};

TEST_F(Scripts, DemoReadsATextWhereItsCallerIs) {
  write_text(path("elsewhere/t.txt"), "some text");
  const Process process = shell("../tree/dev demo --text t.txt --out made");
  EXPECT_NE(process.code, 0) << "the stand-in for genesis-run cannot do it";
  EXPECT_TRUE(called("genesis-run baseline t.txt")) << process.err << calls();
  EXPECT_TRUE(fs::exists(path("elsewhere/made")));
  EXPECT_FALSE(fs::exists(path("elsewhere/build")));
  EXPECT_TRUE(fs::exists(path("tree/build")) || fs::exists(path("tree/build-demo")))
      << "the build folder stands beside dev";
}

TEST_F(Scripts, DemoSaysWhatIsWrongBeforeItBuilds) {
  write_text(path("elsewhere/t.txt"), "some text");
  expect_wrong_usage("../tree/dev demo --text", "--text needs a value");
  expect_wrong_usage("../tree/dev demo --text --minutes 3", "--text needs a value");
  expect_wrong_usage("../tree/dev demo --txt t.txt", "unknown option '--txt'");
  expect_wrong_usage("../tree/dev demo t.txt", "unknown option 't.txt'");
  expect_wrong_usage("../tree/dev demo --minutes soon", "--minutes soon");
  expect_wrong_usage("../tree/dev demo --minutes 0", "--minutes 0");
  const Process missing = shell("../tree/dev demo --text no.txt");
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("--text no.txt"), std::string::npos) << missing.err;
  EXPECT_FALSE(called("ninja -C")) << calls();
}

TEST_F(Scripts, DemoRemovesNoFolderOfItsCaller) {
  fs::create_directories(path("elsewhere/checkpoints"));
  const Process process = shell("../tree/dev demo --out .");
  EXPECT_EQ(process.code, 1);
  EXPECT_NE(process.err.find("checkpoints"), std::string::npos) << process.err;
  EXPECT_TRUE(fs::exists(path("elsewhere/checkpoints")));
}

TEST_F(Scripts, HelpBuildsNothing) {
  for (const char* line : {"", "help", "--help", "demo --help", "demo -h", "test --help", "bench --help",
                           "package --help", "build --help"}) {
    const Process process = shell(std::string("../tree/dev ") + line);
    EXPECT_EQ(process.code, 0) << line << process.err;
    EXPECT_NE(process.out.find("--text FILE"), std::string::npos) << line << process.out;
  }
  EXPECT_EQ(calls(), "");
}

TEST_F(Scripts, DevRefusesWhatItDoesNotKnow) {
  expect_wrong_usage("../tree/dev demmo", "unknown command 'demmo'");
  expect_wrong_usage("../tree/dev build fast", "'fast'");
  expect_wrong_usage("../tree/dev bench --quick", "'--quick'");
  expect_wrong_usage("../tree/dev fuzz long", "a number of seconds, not 'long'");
  expect_wrong_usage("../tree/dev package --now", "'--now'");
  expect_wrong_usage("../tree/dev package here there", "one folder");
  expect_wrong_usage("../tree/dev test oops", "there is no suite 'oops'; there are: lint ops");
  expect_wrong_usage("../tree/bench/run.sh", "BUILD_DIR");
  expect_wrong_usage("../tree/bench/run.sh nowhere", "nowhere");
  expect_wrong_usage("../tree/bench/gpu/run.sh", "BUILD_DIR");
  expect_wrong_usage("STEPS=modles ../tree/bench/gpu/run.sh build", "modles");
}

TEST_F(Scripts, DemoBuildsOnlyItsToolsAndShowsTheCounter) {
  const Process process = shell("../tree/dev demo --out made");
  EXPECT_TRUE(called("/build tools/genesis-build tools/genesis-opt tools/genesis-run tools/genesis-viz") ||
              called("/build-demo tools/genesis-build tools/genesis-opt tools/genesis-run tools/genesis-viz"))
      << calls();
  EXPECT_NE(process.err.find("[1/2 0.1s] one"), std::string::npos) << process.err;
  EXPECT_EQ(process.err.find("[2/2 0.2s] two"), std::string::npos) << "one line in so many seconds\n"
                                                                   << process.err;
}

TEST_F(Scripts, DemoLeavesGpuKernelsOutWhereTheyWouldBeCompiled) {
  stand_in("nvcc", "");
  EXPECT_NE(shell("../tree/dev demo --out made").err.find("nvcc"), std::string::npos);
  EXPECT_TRUE(called("-Dcuda=disabled -Dtests=false")) << calls();
  EXPECT_TRUE(fs::exists(path("tree/build-demo/tools")));
  EXPECT_FALSE(fs::exists(path("tree/build"))) << "the folder of `./dev test` must not lack the GPU";
  // An existing build is used.
  fs::create_directories(path("tree/build/tools"));
  fs::copy_file(path("bin/tool"), path("tree/build/tools/genesis-run"));
  write_text(path("tree/build/build.ninja"), "");
  fs::remove(path("calls"));
  shell("../tree/dev demo --out made");
  EXPECT_FALSE(called("/build-demo")) << calls();
}

TEST_F(Scripts, PackageBuildsTheToolsAloneAndPutsItWhereItsCallerIs) {
  fs::create_directories(path("tree/packaging"));
  write_text(path("tree/packaging/deb.sh"), "#!/bin/sh\necho \"deb.sh $*\"; pwd\n");
  fs::permissions(path("tree/packaging/deb.sh"), fs::perms::owner_all);
  const Process process = shell("../tree/dev package out");
  EXPECT_EQ(process.code, 0) << process.err;
  EXPECT_NE(process.out.find("/build out\n"), std::string::npos) << process.out;
  EXPECT_NE(process.out.find("/elsewhere\n"), std::string::npos) << process.out;
  EXPECT_TRUE(called("/build tools/genesis-build tools/genesis-opt tools/genesis-run tools/genesis-viz"))
      << calls();
  EXPECT_FALSE(called("-Dtests=false")) << "the folder is that of `./dev test`\n" << calls();
}

TEST_F(Scripts, TidyLooksAtWhatWasChangedAndCompiled) {
  stand_in("clang-tidy",
           "if [ $1 = --version ]; then echo 'LLVM version 18.1.3'; else exit ${TIDY_STATUS:-0}; fi");
  stand_in("git",
           "case $1 in merge-base) echo abc ;; diff) printf "
           "'models/zoo.h\\nmodels/zoo.cpp\\nschema/core/dim.h\\ntools/new.cpp\\n' ;; "
           "ls-files) echo schema/core/dim.cpp ;; esac");
  fs::create_directories(path("tree/build"));
  write_text(path("tree/build/build.ninja"), "");
  write_text(path("tree/build/compile_commands.json"),
             R"([{"file": "../models/zoo.cpp"}, {"file": "../schema/core/dim.cpp"}])");
  const Process changed = shell("../tree/dev tidy");
  EXPECT_EQ(changed.code, 0) << changed.err;
  for (const char* file : {"models/zoo.cpp", "schema/core/dim.cpp"})
    EXPECT_TRUE(called(std::string("--extra-arg=-Wno-unknown-warning-option ") + file)) << calls();
  EXPECT_FALSE(called("option tools/new.cpp")) << calls();
  EXPECT_NE(changed.err.find("tools/new.cpp"), std::string::npos) << changed.err;
  EXPECT_EQ(shell("../tree/dev tidy all").code, 0);
}

TEST_F(Scripts, TidyLooksAtFilesAndRooms) {
  stand_in("clang-tidy",
           "if [ $1 = --version ]; then echo 'LLVM version 18.1.3'; else exit ${TIDY_STATUS:-0}; fi");
  stand_in("git", "case $1 in ls-files) shift; for path; do echo ${path%/*}/dim.cpp; done ;; esac");
  fs::create_directories(path("tree/models"));
  fs::create_directories(path("tree/schema/core"));
  write_text(path("tree/models/zoo.cpp"), "");
  write_text(path("tree/models/fast.cpp"), "#pragma GCC target(\"avx2\")\n");
  fs::create_directories(path("tree/build"));
  write_text(path("tree/build/build.ninja"), "");
  write_text(
      path("tree/build/compile_commands.json"),
      R"([{"file": "../models/zoo.cpp"}, {"file": "../models/fast.cpp"}, {"file": "../schema/core/dim.cpp"}])");
  const Process process = shell("../tree/dev tidy models/zoo.cpp models/fast.cpp schema/core/");
  EXPECT_EQ(process.code, 0) << process.err;
  EXPECT_NE(process.err.find("for GCC alone: models/fast.cpp"), std::string::npos) << process.err;
  EXPECT_FALSE(called("option models/fast.cpp")) << calls();
  for (const char* file : {"models/zoo.cpp", "schema/core/dim.cpp"})
    EXPECT_TRUE(called(std::string("--extra-arg=-Wno-unknown-warning-option ") + file)) << calls();
  EXPECT_NE(shell("TIDY_STATUS=1 ../tree/dev tidy models/zoo.cpp").code, 0);
  fs::remove(path("calls"));
  expect_wrong_usage("../tree/dev tidy models/zo.cpp schema/core", "no file or folder 'models/zo.cpp'");
}

// Headers that sources include must exist before clang-tidy reads them: the target named in dev must exist in the
// build.
TEST_F(Scripts, TidyMakesTheHeaderThatIsGenerated) {
  const std::string dev = read_text(kSource / "dev"), header = "/genesis_generated.h";
  const size_t end = dev.find(header), begin = dev.rfind(' ', end) + 1;
  ASSERT_NE(end, std::string::npos);
  EXPECT_TRUE(fs::exists(kSource / dev.substr(begin, end - begin) / "genesis.fbs"))
      << dev.substr(begin, end - begin);
}

TEST_F(Scripts, TidySaysWhatToInstall) {
  for (const char* name : {"", "-20", "-19", "-18", "-17", "-16", "-15"})
    stand_in(std::string("clang-tidy") + name, "echo 'Debian LLVM version 14.0.6'");
  const Process process = shell("../tree/dev tidy");
  EXPECT_EQ(process.code, 1);
  EXPECT_NE(process.err.find("apt-get install clang-tidy-16"), std::string::npos) << process.err;
}

TEST_F(Scripts, TestInstallsWhatTestsNeed) {
  stand_in("dpkg-query", "case $* in *cmake) exit 1 ;; esac; echo 'install ok installed'");
  const Process process = shell("../tree/dev test lint");
  EXPECT_TRUE(called("apt-get update")) << calls();
  EXPECT_NE(process.err.find("packages: cmake\n"), std::string::npos) << process.err;
  EXPECT_FALSE(called("meson test")) << calls();
}

// oneDNN is only for comparison, so it is installed only on request.
TEST_F(Scripts, OneDnnIsInstalledByWishAlone) {
  stand_in("dpkg-query", "case $* in *libdnnl-dev) exit 1 ;; esac; echo 'install ok installed'");
  EXPECT_EQ(shell("../tree/dev setup").code, 0);
  EXPECT_FALSE(called("apt-get")) << calls();
  const Process wished = shell("GENESIS_SETUP='-Dcuda=disabled -Donednn=enabled' ../tree/dev setup");
  EXPECT_NE(wished.err.find("packages: libdnnl-dev\n"), std::string::npos) << wished.err;
}

TEST_F(Scripts, AFailedBuildIsTold) {
  stand_in("ninja", "echo '[1/2 0.1s] one'; echo 'FAILED: two.o'; echo 'two.cpp:1: error'; exit 1");
  const Process process = shell("../tree/dev build");
  EXPECT_EQ(process.code, 1);
  EXPECT_NE(process.err.find("two.cpp:1: error"), std::string::npos) << process.err;
}

TEST_F(Scripts, PathsOfDevAreItsCallers) {
  shell("GENESIS_BUILD_DIR=b GENESIS_SETUP=-Dcuda=disabled ../tree/dev build");
  EXPECT_TRUE(fs::exists(path("elsewhere/b/build.ninja")));
  const std::string options = " -Dsources_per_unit=30 -Dcuda=disabled";
  EXPECT_TRUE(called("meson setup b ../tree" + options) || called("meson setup b " + path("tree") + options))
      << calls();
}

TEST_F(Scripts, OneSuiteNeedsNoBuildOfEverything) {
  shell("../tree/dev test lint");
  EXPECT_TRUE(called("meson test")) << calls();
  EXPECT_FALSE(called("ninja -C")) << calls();
}

TEST_F(Scripts, SourcesWithTheSamePrivateNameShareAUnit) {
  write_text(path("a.cpp"), "namespace {\nint f() { return 1; }\n}\nint a() { return f(); }\n");
  write_text(
      path("b.cpp"),
      "#include <vector>\nnamespace {\nint f(int x) { return 10 * x; }\n}\nint b() { return f(2); }\n");
  write_text(path("c.cpp"), "int f(long);\nint c() { return f(3); }\n");  // calls another f
  write_text(path("d.cpp"), "namespace {\nstruct D { int f; };\nint f(D d) { return d.f; }\n}\n");
  write_text(path("e.cpp"), "#pragma GCC target(\"avx2\")\n");
  const auto units = [&](const std::string& limit) {
    const std::string script = (kSource / "packaging/translation_units.py").string();
    return expect_ok(
        shell("cd .. && " + script + " units " + limit + " name $PWD 'a.cpp\nb.cpp\nc.cpp\nd.cpp\ne.cpp'"));
  };
  const std::string here = folder().string() + "/";
  EXPECT_EQ(units("1"),
            here + "a.cpp\n" + here + "b.cpp\n" + here + "c.cpp\n" + here + "d.cpp\n" + here + "e.cpp");
  EXPECT_EQ(units("12"),
            "units/name_0.cpp\n" + here + "d.cpp\n" + here + "e.cpp");  // a macro would rename D::f
  EXPECT_EQ(read_text(path("units/name_0.cpp")), "#include <vector>\n#define f f_of_a_0\n#include \"" + here +
                                                     "a.cpp\"\n#undef f\n#define f f_of_b_1\n#include \"" +
                                                     here + "b.cpp\"\n#undef f\n#include \"" + here +
                                                     "c.cpp\"\n");
  write_text(path("main.cpp"),
             "#include \"units/name_0.cpp\"\nint f(long x) { return 100 * x; }\n"
             "int main() { return a() + b() + c() == 321 ? 0 : 1; }\n");
  expect_ok(shell("cd .. && c++ -o main main.cpp && ./main"));
}

TEST_F(Scripts, ASourceStaysInItsUnitWhenOthersCome) {
  for (const char* name : {"a", "b", "c", "d", "e"})
    write_text(path(name) + ".cpp", std::string("int ") + name + "();\n");
  const auto units = [&](const std::string& sources) {
    const std::string script = (kSource / "packaging/translation_units.py").string();
    return expect_ok(shell("cd .. && " + script + " units 2 name $PWD '" + sources + "'"));
  };
  const std::string here = folder().string() + "/";
  EXPECT_EQ(units("b.cpp\nc.cpp\nd.cpp\ne.cpp"), "units/name_0.cpp\nunits/name_1.cpp");
  EXPECT_EQ(units("a.cpp\nb.cpp\nc.cpp\nd.cpp\ne.cpp"),
            "units/name_0.cpp\nunits/name_1.cpp\n" + here + "a.cpp");
  EXPECT_EQ(read_text(path("units/name_0.cpp")),
            "#include \"" + here + "b.cpp\"\n#include \"" + here + "c.cpp\"\n");
  write_text(path("units/alone"), "d.cpp\n");
  EXPECT_EQ(units("b.cpp\nc.cpp\nd.cpp\ne.cpp"), "units/name_0.cpp\n" + here + "e.cpp\n" + here + "d.cpp");
  EXPECT_FALSE(fs::exists(path("units/name_1.cpp")));
}

TEST_F(Scripts, AReleaseIsACommitWithATag) {
  const std::string tree = path("tree"), git = "git -C " + tree + " -c user.name=a -c user.email=a@b ";
  for (const char* file : {"packaging/release.py", "packaging/vcpkg/vcpkg.json", "meson.build"}) {
    fs::create_directories(fs::path(tree + "/" + file).parent_path());
    fs::copy_file(kSource / file, tree + "/" + file);
  }
  write_text(tree + "/CHANGELOG.md", "# Changes\n\n## Not released yet\n\n- New.\n\n## 0.1.0\n\n- First.\n");
  const std::string release =
      "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "
      "../tree/dev release ";
  const auto refused = [&](const std::string& line, const std::string& part) {
    const Process process = shell(line);
    EXPECT_NE(process.code, 0) << line;
    EXPECT_NE(process.err.find(part), std::string::npos) << line << process.err;
  };
  expect_ok(shell(git + "init -q && " + git + "add . && " + git + "commit -qm first"));
  const std::string number = GENESIS_VERSION, minor = number.substr(number.find('.') + 1),
                    major = number.substr(0, number.find('.') + 1);
  const std::string next = major + std::to_string(std::stoi(minor) + 1) + ".0";
  refused(release, "release takes the number");
  refused(release + "9.0.0", "9.0.0 does not follow " + number);
  write_text(tree + "/dev.txt", "");
  expect_ok(shell(git + "add dev.txt"));
  refused(release + next, "not committed");
  expect_ok(shell(git + "commit -qm second"));
  write_text(tree + "/.git/hooks/commit-msg", "#!/bin/sh\necho no such message >&2; exit 1\n");
  fs::permissions(tree + "/.git/hooks/commit-msg", fs::perms::owner_all);
  refused(release + next, "git commit failed: no such message");
  EXPECT_EQ(expect_ok(shell(git + "status --porcelain --untracked-files=no")), "");
  fs::remove(tree + "/.git/hooks/commit-msg");
  expect_ok(shell(release + next));
  EXPECT_EQ(expect_ok(shell(git + "describe")), "v" + next + "\n");
  EXPECT_EQ(expect_ok(shell(git + "log -1 --format=%s")), "release: make " + next + "\n");
  EXPECT_NE(read_text(tree + "/meson.build").find("version: '" + next + "'"), std::string::npos);
  EXPECT_TRUE(std::regex_search(read_text(tree + "/CHANGELOG.md"),
                                std::regex("## Not released yet\n\n## " + next + " \\([0-9-]+\\)\n\n- New")));
  write_text(tree + "/dev.txt", "");
  refused(release + "1.0.0", "says nothing");
}

TEST_F(Scripts, TheSiteHasAPageForEachDocumentAndNoBrokenLink) {
  if (run_process({"sh", "-c", "command -v mkdocs"}).code != 0)
    GTEST_SKIP() << "mkdocs is not installed: apt-get install mkdocs-material";
  const std::string out = path("site");
  expect_ok(run_process({"python3", (kSource / "packaging/site/site.py").string(), out}));
  for (const char* page :
       {"index.html", "coming-from.html", "zh/tour.html", "bench/notes/gpu.html", "reference/executor.html",
        "source/models/families/decoder/decoder.cpp.html", "images/graph.svg"})
    EXPECT_TRUE(fs::exists(fs::path(out) / page)) << page;
  EXPECT_NE(read_text(out + "/reference/executor.html").find("grow_cache"), std::string::npos);
  EXPECT_EQ(read_text(out + "/reference/executor.html").find("unique_ptr&lt;Impl&gt;"),
            std::string::npos);  // is private
}

TEST_F(Scripts, SanitizersCoverageAndFuzzersHaveFoldersOfTheirOwn) {
  shell("../tree/dev sanitize lint");
  EXPECT_TRUE(called("-Db_sanitize=address,undefined")) << calls();
  shell("../tree/dev sanitize thread lint");
  EXPECT_TRUE(called("-Db_sanitize=thread")) << calls();
  stand_in("gcovr", "");
  shell("../tree/dev coverage lint");
  EXPECT_TRUE(called("-Db_coverage=true")) << calls();
  EXPECT_TRUE(called("gcovr --root . --filter schema/")) << calls();
  stand_in("apt-cache", "case $2 in clang-19 | clang-20) ;; *) exit 100 ;; esac");
  shell("../tree/dev fuzz 1");
  EXPECT_TRUE(called("-Dfuzz=true")) << calls();
  EXPECT_TRUE(called("libclang-rt-19-dev")) << calls();
  EXPECT_TRUE(called("tests/fuzz/load_fuzzer tests/fuzz/template_fuzzer tests/fuzz/graph_fuzzer")) << calls();
  for (const char* name : {"build-address", "build-thread", "build-coverage", "build-fuzz"})
    EXPECT_TRUE(fs::exists(path("tree") + "/" + name)) << name;
  EXPECT_FALSE(fs::exists(path("tree/build")));
}

}  // namespace
}  // namespace genesis::testing
