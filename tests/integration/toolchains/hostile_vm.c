/* In the place of a VM, in a toolchain of a user's: it does nothing, but its library runs first. */
int phones_home(void);

int main(void) {
    return phones_home();
}
