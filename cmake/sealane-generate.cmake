# SPDX-License-Identifier: Apache-2.0
# sealane_generate(<target> a.proto [b.proto ...] [IMPORT_DIRS dir ...])
#
# Makes a.pb-c.[ch] (messages) and a.sealane.[ch] (stubs) in the current binary directory and adds them to the target, which must
# link sealane::sealane. A .proto is named by its path from the first of IMPORT_DIRS that holds it, else by its file name; that is the
# name that other files import it by. Imports are looked for in the file's own directory, in IMPORT_DIRS and among what Sealane
# brings (sealane/tensor.proto, google/protobuf/*.proto), whose C is in the library. Other imported files must be generated
# too, by this or another target that this one links. Two targets of one directory may name the same file: it is made once.
#
# Works in the source tree and installed; there, SEALANE_IDL_DIR is where sealane/tensor.proto was put.
include_guard(GLOBAL)

if(NOT SEALANE_IDL_DIR)
    set(SEALANE_IDL_DIR ${CMAKE_CURRENT_LIST_DIR}/../idl)
endif()
get_filename_component(SEALANE_IDL_DIR ${SEALANE_IDL_DIR} ABSOLUTE)
find_program(SEALANE_PROTOC protoc REQUIRED)
find_path(SEALANE_PROTOBUF_PROTOS google/protobuf/any.proto REQUIRED)
# A function sees its caller's variables, not these.
set_property(GLOBAL PROPERTY SEALANE_IDL_DIR ${SEALANE_IDL_DIR})

# The name that protoc gives a file, and the directory that it counts from.
function(sealane_proto_name file import_dirs name_p root_p)
    foreach(dir ${import_dirs})
        cmake_path(IS_PREFIX dir ${file} NORMALIZE inside)
        if(inside)
            cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${dir} OUTPUT_VARIABLE name)
            set(${name_p} ${name} PARENT_SCOPE)
            set(${root_p} ${dir} PARENT_SCOPE)
            return()
        endif()
    endforeach()
    cmake_path(GET file FILENAME name)
    cmake_path(GET file PARENT_PATH root)
    set(${name_p} ${name} PARENT_SCOPE)
    set(${root_p} ${root} PARENT_SCOPE)
endfunction()

function(sealane_generate target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "IMPORT_DIRS")
    if(NOT arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "sealane_generate(${target}): no .proto is named")
    endif()
    get_property(idl GLOBAL PROPERTY SEALANE_IDL_DIR)
    set(import_dirs "")
    foreach(dir ${arg_IMPORT_DIRS})
        cmake_path(ABSOLUTE_PATH dir BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
        list(APPEND import_dirs ${dir})
    endforeach()
    foreach(proto ${arg_UNPARSED_ARGUMENTS})
        cmake_path(ABSOLUTE_PATH proto BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE file)
        sealane_proto_name(${file} "${import_dirs}" name root)
        cmake_path(REMOVE_EXTENSION name LAST_ONLY OUTPUT_VARIABLE stem)
        set(made ${CMAKE_CURRENT_BINARY_DIR}/${stem})
        set(outputs ${made}.pb-c.c ${made}.pb-c.h ${made}.sealane.c ${made}.sealane.h)
        get_source_file_property(known ${made}.sealane.c GENERATED)
        if(NOT known)
            set(paths ${root} ${import_dirs} ${idl} ${SEALANE_PROTOBUF_PROTOS})
            list(REMOVE_DUPLICATES paths)
            list(TRANSFORM paths PREPEND -I)
            add_custom_command(OUTPUT ${outputs}
                COMMAND ${SEALANE_PROTOC} --plugin=protoc-gen-sealane=$<TARGET_FILE:sealane::protoc-gen-sealane>
                    ${paths} --sealane_out=${CMAKE_CURRENT_BINARY_DIR} --dependency_out=${made}.pb-c.d ${name}
                DEPENDS ${file} sealane::protoc-gen-sealane
                DEPFILE ${made}.pb-c.d
                COMMENT "sealane: ${name}" VERBATIM)
            # protobuf-c's code is not ours to keep free of warnings.
            set_source_files_properties(${made}.pb-c.c PROPERTIES COMPILE_OPTIONS "-w")
        endif()
        target_sources(${target} PRIVATE ${outputs})
    endforeach()
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_BINARY_DIR}>)
endfunction()
