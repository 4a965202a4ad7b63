# The house: every library stands on a floor and may need only what lies below it. A need that
# points upward or sideways stops the configure step.

set(MC_FLOOR_base 0)
set(MC_FLOOR_io 1)
set(MC_FLOOR_rpc 2)
set(MC_FLOOR_transport 2)
set(MC_FLOOR_wire 3)
set(MC_FLOOR_master 4)
set(MC_FLOOR_master_core 4)
set(MC_FLOOR_store 4)
set(MC_FLOOR_client 4)

# mc_library(name SOURCES ... NEEDS ... [EMBEDS ...] [LINKS ...])
#
# Makes the static library mc_<name>. NEEDS are other rooms of the house; LINKS are targets from
# outside; EMBEDS names a sibling that is used through one public face (client -> store).
function(mc_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;NEEDS;EMBEDS;LINKS" ${ARGN})
  if(NOT DEFINED MC_FLOOR_${name})
    message(FATAL_ERROR "house: ${name} has no floor; give it one in cmake/MooncakeHouse.cmake")
  endif()
  foreach(need ${ARG_NEEDS})
    if(NOT DEFINED MC_FLOOR_${need})
      message(FATAL_ERROR "house: ${name} needs ${need}, which has no floor")
    endif()
    if(NOT MC_FLOOR_${need} LESS MC_FLOOR_${name})
      message(FATAL_ERROR "house: ${name} (floor ${MC_FLOOR_${name}}) must not need ${need} "
        "(floor ${MC_FLOOR_${need}}): needs go downward only")
    endif()
    if(name MATCHES "^master" AND need STREQUAL "transport")
      message(FATAL_ERROR "house: the master never touches a payload byte: no transport in it")
    endif()
  endforeach()
  add_library(mc_${name} STATIC ${ARG_SOURCES})
  target_include_directories(mc_${name} PUBLIC
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(mc_${name} PRIVATE mc_flags PUBLIC ${ARG_LINKS})
  foreach(need ${ARG_NEEDS} ${ARG_EMBEDS})
    target_link_libraries(mc_${name} PUBLIC mc_${need})
  endforeach()
endfunction()

# mc_program(name [NAMED file] COMPONENT c SOURCES ... NEEDS ... [LINKS ...]): a program, made of
# rooms of the house, in a file of the target's name unless NAMED; c names the package that it goes
# into (cmake/MooncakePackages.cmake).
function(mc_program name)
  cmake_parse_arguments(ARG "" "NAMED;COMPONENT" "SOURCES;NEEDS;LINKS" ${ARGN})
  if(NOT ARG_NAMED)
    set(ARG_NAMED ${name})
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE mc_flags ${ARG_LINKS})
  foreach(need ${ARG_NEEDS})
    target_link_libraries(${name} PRIVATE mc_${need})
  endforeach()
  set_target_properties(${name} PROPERTIES
    OUTPUT_NAME ${ARG_NAMED} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${ARG_COMPONENT})
  install(FILES ${PROJECT_SOURCE_DIR}/docs/man/${ARG_NAMED}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT ${ARG_COMPONENT})
endfunction()

# mc_test(name SOURCES ... NEEDS ... [LINKS ...] [LABELS ...] [TIMEOUT s]): one cmocka program, one
# ctest line.
function(mc_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;NEEDS;LINKS;LABELS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(test_${name} PRIVATE mc_flags PkgConfig::CMOCKA ${ARG_LINKS})
  foreach(need ${ARG_NEEDS})
    target_link_libraries(test_${name} PRIVATE mc_${need})
  endforeach()
  add_test(NAME ${name} COMMAND test_${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300) # far beyond any wait of a test, and those are for broken programs
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if(MC_SANITIZE MATCHES "thread")
    set_tests_properties(${name} PROPERTIES
      ENVIRONMENT TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp)
  endif()
endfunction()
