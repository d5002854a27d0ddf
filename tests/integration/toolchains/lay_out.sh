#!/bin/sh
# Lays out what test_toolchains.c needs below a folder: a second OTP of the operator's, and a user's home with the places
# of mise, asdf and kerl, made of copies of this machine's OTP. Usage: lay_out.sh FOLDER OTP_ROOT UID HOSTILE_FOLDER
set -eu
umask 022
folder=$1 otp=$2 uid=$3 hostile=$4

# What boots, with a compiler: the rest of OTP is many times as large.
copy_otp() {
    mkdir -p "$1/lib" "$1/bin"
    cp -R "$otp"/erts-* "$otp/releases" "$1/"
    cp "$otp"/bin/*.boot "$1/bin/"
    for application in kernel stdlib compiler sasl; do cp -R "$otp/lib/$application"-* "$1/lib/"; done
    rm -rf "$1"/lib/*/src "$1"/lib/*/include "$1"/lib/*/examples "$1"/erts-*/src "$1"/erts-*/man
}

copy_otp "$folder/second"
cp -R "$folder/second" "$folder/open"
chmod 0777 "$folder/open"

# Takes the VM out of an installation, and puts another program in its place.
replace_vm() {
    for bin in "$1"/erts-*/bin; do
        rm "$bin/beam.smp"
        cp "$2" "$bin/beam.smp"
    done
}

# Its VM's library is not there.
cp -R "$folder/second" "$folder/lacking"
replace_vm "$folder/lacking" "$hostile/hostile_vm"

home=$folder/home
mise=$home/.local/share/mise/installs asdf=$home/.asdf/installs
mkdir -p "$mise/erlang" "$mise/elixir" "$asdf/erlang" "$home/.kerl" "$home/kerl"
cp -R "$folder/second" "$mise/erlang/99.1"
ln -s 99.1 "$mise/erlang/99"
ln -s /usr "$mise/erlang/98.0"

# An Elixir whose .app lies: it says a version that is a path, and has no modules.
mkdir -p "$mise/elixir/1.99.0-otp-99/lib/elixir/ebin"
echo '{application, elixir, [{vsn, "9.9.9"}, {modules, ['"'Elixir.Kernel'"']}, {applications, [kernel]}]}.' \
    >"$mise/elixir/1.99.0-otp-99/lib/elixir/ebin/elixir.app"

cp -R "$folder/second" "$asdf/erlang/97.1"
rm -r "$asdf/erlang/97.1/lib"/compiler-*
mkdir -p "$asdf/erlang/97.2"
cp -R "$folder/second" "$asdf/erlang/97.3"
chmod 0777 "$asdf/erlang/97.3/releases"

# A VM that is a shell script, one that is another program with a library of its own, and one without its library.
printf '#!/bin/sh\ncat /etc/passwd; echo this is a script that is longer than the header of a program\n' >"$home/script"
chmod 0755 "$home/script"
cp -R "$folder/second" "$home/kerl/96.1"
cp -R "$folder/second" "$home/kerl/96.2"
replace_vm "$home/kerl/96.1" "$home/script"
replace_vm "$home/kerl/96.2" "$hostile/hostile_vm"
cp -R "$home/kerl/96.2" "$home/kerl/96.3"
for bin in "$home"/kerl/96.2/erts-*/bin; do cp "$hostile/libphones_home.so" "$bin/"; done
{
    echo "96.1 $home/kerl/96.1"
    echo "96.2 $home/kerl/96.2"
    echo "96.3 $home/kerl/96.3"
    echo "twice $home/kerl/96.1"
    echo "twice $home/kerl/96.2"
    echo "outside /usr/lib"
} >"$home/.kerl/otp_installations"

mkdir -p "$home/fits" "$home/unlisted"
echo 'erlang 99' >"$home/fits/.tool-versions"
printf '[tools]\nerlang = "98.7"\n' >"$home/unlisted/mise.toml"

# VMs that are another program. Its installation has just what is looked for.
for place in brief/1.1 brief/1.2 long/1.1 long2/1.1; do
    otp=$home/${place%/*}/.local/share/mise/installs/erlang/${place#*/}
    mkdir -p "$otp/erts-1/bin" "$otp/lib/compiler-1"
    cp "$hostile/talker" "$otp/erts-1/bin/beam.smp"
    cp "$hostile/talker" "$otp/erts-1/bin/erl_child_setup"
    case $place in brief/1.2) touch "$otp/much" ;; long*) touch "$otp/long" ;; esac
done
chown -R "$uid:$uid" "$home"
