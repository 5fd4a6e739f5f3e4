# SPDX-License-Identifier: Apache-2.0
# Finds CUDA for gpu/; where there is none, the build leaves gpu/ out. The runtime is linked statically: a program starts without a GPU.
# Nothing of gpu/ is run by libFuzzer or under ThreadSanitizer, and nvcc's host compiler knows none of clang's flags.
if(SEALANE_FUZZ OR SEALANE_SANITIZE MATCHES "thread")
    set(SEALANE_CUDA OFF)
endif()
if(SEALANE_CUDA)
    find_program(SEALANE_NVCC nvcc HINTS ${CUDAToolkit_ROOT}/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
    if(SEALANE_NVCC)
        execute_process(COMMAND ${SEALANE_NVCC} --version OUTPUT_VARIABLE version)
        string(REGEX MATCH "release ([0-9]+)" version "${version}")
        set(version ${CMAKE_MATCH_1})
    endif()
    if(NOT SEALANE_NVCC OR version LESS 13)
        message(STATUS "no CUDA 13 or later: built without the GPU's AEAD")
        set(SEALANE_CUDA OFF)
    endif()
endif()
if(SEALANE_CUDA)
    set(CMAKE_CUDA_COMPILER ${SEALANE_NVCC})
    find_program(SEALANE_CUDA_HOST NAMES g++-12 g++)
    set(CMAKE_CUDA_HOST_COMPILER ${SEALANE_CUDA_HOST})
    set(CMAKE_CUDA_ARCHITECTURES OFF) # named by each target
    set(CMAKE_CUDA_STANDARD 17)
    # What runs on the device is optimised in every preset.
    set(CMAKE_CUDA_FLAGS_DEBUG "-g")
    set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3 -g -DNDEBUG")
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
endif()

# sealane_kernels(<target> <architecture> …): what its .cu files are compiled for, such as 80 90a.
function(sealane_kernels target)
    foreach(architecture ${ARGN})
        target_compile_options(${target} PRIVATE
            "$<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_${architecture},code=sm_${architecture}>")
    endforeach()
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Wshadow>)
endfunction()
