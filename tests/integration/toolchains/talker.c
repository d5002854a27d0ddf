/* In the place of a VM, in a toolchain of a user's: what it says is as a VM's. Files in its folder say what else it
   does: `much` has it say more without end, `long` has it work for a while and say when. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { WORK_MS = 150 };

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

int main(void) {
    if (access("/toolchain/otp/long", F_OK) == 0) {
        long long begun_ms = now_ms();
        while (now_ms() < begun_ms + WORK_MS) continue;
        printf("SBXERROR from %lld to %lld\n", begun_ms, now_ms());
        return 1;
    }
    printf("SBXBOOT AAAA\n");
    if (access("/toolchain/otp/much", F_OK) == 0)
        while (putchar('\n') != EOF) continue;
    printf("OTP_RELEASE 27\nOTP_VERSION 27.1\n");
    return 0;
}
