"""Compiles a program in C with the package and runs it."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.gnu import PkgConfigDeps


class TestGenesis(ConanFile):
    settings = 'os', 'arch', 'compiler', 'build_type'

    def layout(self):
        self.folders.build = self.folders.generators = 'build'

    def requirements(self):
        self.requires(self.tested_reference_str)

    def generate(self):
        PkgConfigDeps(self).generate()

    def build(self):
        program = os.path.join(self.recipe_folder, '..', '..', '..', 'examples', 'c_program.c')
        self.run(f'PKG_CONFIG_PATH="{self.generators_folder}" sh -c \'cc -std=c99 "{program}" -o c_program $(pkg-config --cflags --libs genesis)\'')

    def test(self):
        if can_run(self):
            folders = ':'.join(self.dependencies[self.tested_reference_str].cpp_info.libdirs)
            self.run(f'LD_LIBRARY_PATH="{folders}" ./c_program write "{self.build_folder}/m.genesis"')
