# SPDX-License-Identifier: Apache-2.0
# Targets format, check-format and tidy: clang 14's, since other versions lay out and judge differently.
file(GLOB_RECURSE SEALANE_OWN_FILES CONFIGURE_DEPENDS codegen/*.[ch] rpc/*.[ch] transport/*.[ch] gpu/*.[ch]
    examples/*.[ch] bench/*.[ch] tests/*.[ch])
list(FILTER SEALANE_OWN_FILES EXCLUDE REGEX "/tests/codegen/golden/") # generated
# What the product and the examples are made of; of the AEADs the one that this build has.
set(SEALANE_TIDY_FILES ${SEALANE_OWN_FILES})
list(FILTER SEALANE_TIDY_FILES INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/(codegen|rpc|transport|examples)/.*\\.c$")
list(FILTER SEALANE_TIDY_FILES EXCLUDE REGEX "/transport/seal_")
list(APPEND SEALANE_TIDY_FILES ${PROJECT_SOURCE_DIR}/transport/seal_${SEALANE_AEAD}.c)

find_program(SEALANE_CLANG_FORMAT clang-format-14)
find_program(SEALANE_RUN_CLANG_TIDY run-clang-tidy-14)
if(SEALANE_CLANG_FORMAT)
    add_custom_target(format COMMAND ${SEALANE_CLANG_FORMAT} -i ${SEALANE_OWN_FILES} VERBATIM)
    add_custom_target(check-format COMMAND ${SEALANE_CLANG_FORMAT} --dry-run -Werror ${SEALANE_OWN_FILES} VERBATIM)
endif()
if(SEALANE_RUN_CLANG_TIDY)
    add_custom_target(tidy COMMAND ${SEALANE_RUN_CLANG_TIDY} -quiet -j 2 -p ${PROJECT_BINARY_DIR} ${SEALANE_TIDY_FILES} VERBATIM)
    # For the headers that are generated.
    add_dependencies(tidy sealane sealane_codegen)
    if(SEALANE_EXAMPLES)
        add_dependencies(tidy echo-client parameter_server_parts)
    endif()
endif()
