# One step of the install test: stage, find_package, pkg_config or ecoffload. Any failed command is
# fatal.
cmake_policy(VERSION 3.25)
string(REPLACE "," ";" consumers "${CONSUMERS}")
set(prefix ${WORK}/moved)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY COMMAND_ECHO STDOUT)
endfunction()

# Without a cluster, and, of the client, with the one that was installed.
function(run_consumer name program)
  run(${program})
  if(name STREQUAL "client" AND EXISTS ${prefix}/bin/ringd)
    run(${CMAKE_CURRENT_LIST_DIR}/with_cluster.sh ${prefix}/bin/ringd ${program})
  endif()
endfunction()

if(STEP STREQUAL "stage")
  file(REMOVE_RECURSE ${WORK})
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
  # Moved, so that a path of the first place would show.
  file(RENAME ${WORK}/first ${prefix})
  file(GLOB_RECURSE private ${prefix}/include/ring-kvs/memgest/*
       ${prefix}/include/ring-kvs/ring/coordinator/* ${prefix}/include/ring-kvs/ring/node/*)
  if(private)
    message(FATAL_ERROR "private headers are installed: ${private}")
  endif()
  # Where ringd says that it is.
  if(EXISTS ${prefix}/bin/ringd)
    execute_process(COMMAND ${prefix}/bin/ringd --help COMMAND_ERROR_IS_FATAL ANY
                    OUTPUT_VARIABLE help)
    string(FIND "${help}" "${DOCDIR}/ring.toml.example" told)
    if(told EQUAL -1 OR NOT EXISTS ${prefix}/${DOCDIR}/ring.toml.example)
      message(FATAL_ERROR "no ${DOCDIR}/ring.toml.example, or ringd --help does not name it")
    endif()
  endif()
elseif(STEP STREQUAL "find_package")
  run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/find_package
      -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${CXX}
      -D CONSUMERS=${CONSUMERS})
  run(${CMAKE_COMMAND} --build ${WORK}/find_package)
  foreach(name ${consumers})
    run_consumer(${name} ${WORK}/find_package/${name})
  endforeach()
elseif(STEP STREQUAL "pkg_config")
  set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
  file(MAKE_DIRECTORY ${WORK}/pkg_config)
  run(pkg-config --exact-version=${VERSION} ring)
  foreach(name ${consumers})
    foreach(part cflags libs)
      execute_process(COMMAND pkg-config --${part} ring-${name} COMMAND_ERROR_IS_FATAL ANY
                      OUTPUT_VARIABLE ${part} OUTPUT_STRIP_TRAILING_WHITESPACE)
      separate_arguments(${part} UNIX_COMMAND "${${part}}")
    endforeach()
    run(${CXX} -std=c++20 ${cflags} ${CMAKE_CURRENT_LIST_DIR}/consumer/${name}.cc
        -o ${WORK}/pkg_config/${name} ${libs})
    run_consumer(${name} ${WORK}/pkg_config/${name})
  endforeach()
elseif(STEP STREQUAL "ecoffload")
  # A C program of the published interface, found, linked and run as one of its users would.
  set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
  file(MAKE_DIRECTORY ${WORK}/ecoffload)
  run(pkg-config --exact-version=${VERSION} ecoffload)
  execute_process(COMMAND pkg-config --cflags --libs ecoffload COMMAND_ERROR_IS_FATAL ANY
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${CC} -std=c11 -Wall -Werror ${SOURCE}/ec_offload/eco/example/eco_example.c
      -o ${WORK}/ecoffload/eco_example ${flags})
  run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/${LIBDIR} ${WORK}/ecoffload/eco_example)
  foreach(page mlx_eco_init mlx_eco_encoder_encode mlx_eco_decoder_decode)
    if(NOT EXISTS ${prefix}/${MANDIR}/man3/${page}.3)
      message(FATAL_ERROR "no manual page of ${page}")
    endif()
  endforeach()
else()
  message(FATAL_ERROR "STEP=${STEP}: give stage, find_package, pkg_config or ecoffload")
endif()
