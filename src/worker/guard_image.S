// The guard's program, whole, as bytes of the worker's library: a user links one library and has it.
// ROTA_GUARD_PATH is the build's.

        .section .rodata
        .balign 64
        .globl  rota_guard_image
        .hidden rota_guard_image
        .globl  rota_guard_image_end
        .hidden rota_guard_image_end
rota_guard_image:
        .incbin ROTA_GUARD_PATH
rota_guard_image_end:
        .byte   0
        .section .note.GNU-stack, "", %progbits
