# SPDX-License-Identifier: Apache-2.0
# Targets format, check-format and tidy: clang 14's, since other versions lay out and judge differently.
file(GLOB_RECURSE SEALANE_OWN_FILES CONFIGURE_DEPENDS codegen/*.[ch] rpc/*.[ch] transport/*.[ch] gpu/*.[ch]
    examples/*.[ch] bench/*.[ch] tests/*.[ch])
list(FILTER SEALANE_OWN_FILES EXCLUDE REGEX "/tests/codegen/golden/") # generated
set(SEALANE_TIDY_FILES ${SEALANE_OWN_FILES})
list(FILTER SEALANE_TIDY_FILES INCLUDE REGEX "/(codegen|rpc|transport|examples)/[^/]*\\.c$|/examples/.*\\.c$")
list(FILTER SEALANE_TIDY_FILES EXCLUDE REGEX "/tests/|/seal_(plain|openssl|ipsecmb)\\.c$")
list(APPEND SEALANE_TIDY_FILES ${PROJECT_SOURCE_DIR}/transport/seal_${SEALANE_AEAD}.c)

find_program(SEALANE_CLANG_FORMAT clang-format-14)
find_program(SEALANE_RUN_CLANG_TIDY run-clang-tidy-14)
if(SEALANE_CLANG_FORMAT)
    add_custom_target(format COMMAND ${SEALANE_CLANG_FORMAT} -i ${SEALANE_OWN_FILES} VERBATIM)
    add_custom_target(check-format COMMAND ${SEALANE_CLANG_FORMAT} --dry-run -Werror ${SEALANE_OWN_FILES} VERBATIM)
endif()
if(SEALANE_RUN_CLANG_TIDY)
    add_custom_target(tidy COMMAND ${SEALANE_RUN_CLANG_TIDY} -quiet -j 2 -p ${PROJECT_BINARY_DIR} ${SEALANE_TIDY_FILES} VERBATIM)
endif()
