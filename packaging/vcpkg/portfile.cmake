# The port of Genesis for vcpkg, as an overlay: vcpkg install genesis --overlay-ports=packaging/vcpkg
# It builds the tree that it lies in. Genesis is a shared library.
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

set(OPTIONS -Dtests=false -Dsources_per_unit=12 -Deditor=disabled -Dmpi=disabled -Dpage=disabled)
foreach(FEATURE cuda hub images serve)
  if(FEATURE IN_LIST FEATURES)
    list(APPEND OPTIONS -D${FEATURE}=enabled)
  else()
    list(APPEND OPTIONS -D${FEATURE}=disabled)
  endif()
endforeach()

vcpkg_configure_meson(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${OPTIONS}
  ADDITIONAL_BINARIES "flatc='${CURRENT_HOST_INSTALLED_DIR}/tools/flatbuffers/flatc'")
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
vcpkg_cmake_config_fixup(PACKAGE_NAME genesis CONFIG_PATH lib/cmake/genesis)
vcpkg_copy_tools(TOOL_NAMES genesis-build genesis-opt genesis-run genesis-viz AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
