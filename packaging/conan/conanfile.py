"""The recipe of Genesis for Conan 2: conan create packaging/conan

Libraries come from the distribution's packages, as in every build of Genesis (-o system=True, the default), or from Conan's own
(-o system=False). -c user.genesis:build_folder=DIR packages a build that is there already.
"""
import os
import re

from conan import ConanFile
from conan.tools.env import Environment
from conan.tools.files import copy, load
from conan.tools.gnu import PkgConfigDeps
from conan.tools.system.package_manager import Apt


class Genesis(ConanFile):
    name = 'genesis'
    license = 'MIT'
    description = 'Graph-mode deep learning in C++20'
    topics = 'deep-learning', 'language-models', 'inference', 'training'
    package_type = 'shared-library'
    settings = 'os', 'arch', 'compiler', 'build_type'
    options = {'system': [True, False], 'cuda': [True, False]}
    default_options = {'system': True, 'cuda': False}
    apt = ['meson', 'ninja-build', 'pkg-config', 'flatbuffers-compiler', 'libflatbuffers-dev', 'libtbb-dev', 'libhwy-dev', 'libfmt-dev',
           'libspdlog-dev', 'libcli11-dev', 'nlohmann-json3-dev', 'libpcre2-dev', 'libutf8proc-dev', 'libxxhash-dev', 'zlib1g-dev',
           'libcurl4-openssl-dev', 'libedit-dev', 'libjpeg-dev', 'libpng-dev', 'libboost-dev']

    @property
    def root(self):
        return os.path.join(self.recipe_folder, '..', '..')

    def set_version(self):
        text = load(self, os.path.join(self.root, 'meson.build'))
        self.version = re.search(r"version: '([0-9.]+)'", text).group(1)

    def export_sources(self):
        for folder in ('schema', 'builder', 'passes', 'backends', 'executor', 'models', 'bindings', 'tools', 'include', 'packaging', 'bench',
                       'examples'):
            copy(self, folder + '/*', self.root, self.export_sources_folder)
        for file in ('meson.build', 'meson_options.txt', 'genesis-config.cmake.in', 'LICENSE', 'README.md'):
            copy(self, file, self.root, self.export_sources_folder)

    def system_requirements(self):
        if self.options.system:
            Apt(self).install(self.apt, check=True)

    def requirements(self):
        if self.options.system:
            return
        for name in ('flatbuffers/[>=23]', 'onetbb/[>=2021]', 'highway/[>=1.0]', 'fmt/[>=9]', 'spdlog/[>=1.10]', 'cli11/[>=2.1]',
                     'nlohmann_json/[>=3.11]', 'pcre2/[>=10.40]', 'utf8proc/[>=2.8]', 'xxhash/[>=0.8]', 'zlib/[>=1.2]', 'libjpeg-turbo/[>=2.1]',
                     'libpng/[>=1.6]', 'boost/[>=1.74]'):
            self.requires(name, transitive_headers=name.startswith('fmt/'))

    def build_requirements(self):
        if self.options.system:
            return
        for name in ('meson/[>=1.0]', 'ninja/[>=1.10]', 'pkgconf/[>=2.0]'):
            self.tool_requires(name)
        self.tool_requires('flatbuffers/<host_version>')  # flatc makes headers that only its own version reads

    def generate(self):
        PkgConfigDeps(self).generate()

    def build(self):
        if self.made():
            return
        environment = Environment()
        environment.prepend_path('PKG_CONFIG_PATH', self.generators_folder)
        options = f'-Dtests=false -Dsources_per_unit=12 -Dcuda={"enabled" if self.options.cuda else "disabled"}'
        with environment.vars(self).apply():
            self.run(f'meson setup "{self.build_folder}/meson" "{self.source_folder}" --prefix=/ --libdir=lib {options}')
            self.run(f'ninja -C "{self.build_folder}/meson"')

    def made(self):
        return self.conf.get('user.genesis:build_folder', default='')

    def package(self):
        # The prefix that a build was made for stays below the package's folder: /, or /usr/local.
        build = self.made() or os.path.join(self.build_folder, 'meson')
        self.run(f'meson install -C "{build}" --no-rebuild --quiet --destdir "{self.package_folder}"')
        copy(self, 'LICENSE', self.source_folder, os.path.join(self.package_folder, 'licenses'))

    def package_info(self):
        prefix = next((p for p in ('', 'usr', 'usr/local') if os.path.isdir(os.path.join(self.package_folder, p, 'include/genesis'))), '')
        folders = [folder for folder, _, files in os.walk(self.package_folder) if 'libgenesis.so' in files]
        self.cpp_info.libs = ['genesis']
        self.cpp_info.includedirs = [os.path.join(prefix, 'include')]
        self.cpp_info.libdirs = folders
        self.cpp_info.bindirs = [os.path.join(prefix, 'bin')]
        self.cpp_info.set_property('cmake_target_name', 'genesis::genesis')
        self.cpp_info.set_property('pkg_config_name', 'genesis')
        if self.options.system:
            self.cpp_info.system_libs = ['fmt']
