# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: the library, the generator, the doors, and what find_package(sealane) and pkg-config read.
# The doors live in a folder of their own, since generated headers of well-known types (google/protobuf/any.pb-c.h) are among them.
set(SEALANE_INCLUDE_DIR ${CMAKE_INSTALL_INCLUDEDIR}/sealane)
set(SEALANE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/sealane)
set(SEALANE_DATA_DIR ${CMAKE_INSTALL_DATADIR}/sealane)

target_include_directories(sealane INTERFACE $<INSTALL_INTERFACE:${SEALANE_INCLUDE_DIR}>)
install(TARGETS sealane protoc-gen-sealane sealane-info sealane_aead_packages EXPORT sealane)
install(EXPORT sealane NAMESPACE sealane:: FILE sealane-targets.cmake DESTINATION ${SEALANE_PACKAGE_DIR})
install(FILES rpc/sealane.h transport/sealane_transport.h transport/sealane_status.h DESTINATION ${SEALANE_INCLUDE_DIR})
install(DIRECTORY ${PROJECT_BINARY_DIR}/idl/ DESTINATION ${SEALANE_INCLUDE_DIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY idl/ DESTINATION ${SEALANE_DATA_DIR}/idl FILES_MATCHING PATTERN "*.proto")
install(PROGRAMS tools/make-certs.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME sealane-make-certs)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The CPU AEAD's library, as find_package and pkg-config name it.
set(SEALANE_FIND_LIBCRYPTO "")
set(SEALANE_PC_AEAD "-lIPSec_MB")
set(SEALANE_PC_REQUIRES "wolfssl")
if(SEALANE_AEAD STREQUAL "openssl")
    set(SEALANE_FIND_LIBCRYPTO "pkg_check_modules(libcrypto REQUIRED IMPORTED_TARGET libcrypto)")
    set(SEALANE_PC_AEAD "")
    string(APPEND SEALANE_PC_REQUIRES " libcrypto")
endif()
set(SEALANE_FIND_RDMA "")
if(SEALANE_VERBS)
    set(SEALANE_FIND_RDMA "pkg_check_modules(rdma REQUIRED IMPORTED_TARGET libibverbs librdmacm)")
    string(APPEND SEALANE_PC_REQUIRES " libibverbs librdmacm")
endif()
configure_package_config_file(cmake/sealane-config.cmake.in sealane-config.cmake INSTALL_DESTINATION ${SEALANE_PACKAGE_DIR}
    PATH_VARS SEALANE_DATA_DIR)
write_basic_package_version_file(sealane-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sealane-config.cmake ${PROJECT_BINARY_DIR}/sealane-config-version.cmake
    cmake/sealane-generate.cmake DESTINATION ${SEALANE_PACKAGE_DIR})

# Who links the static library needs what is inside it, who links the shared one does not.
set(SEALANE_PC_LIBS "-pthread ${SEALANE_PC_AEAD}")
if(BUILD_SHARED_LIBS)
    set(SEALANE_PC_PRIVATE "Requires.private: ${SEALANE_PC_REQUIRES}")
    set(SEALANE_PC_REQUIRES "")
    set(SEALANE_PC_LIBS "")
endif()
# Counted from where the file lies, so that the tree can be moved.
file(RELATIVE_PATH SEALANE_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/sealane.pc.in sealane.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sealane.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
