"""Dictionaries as their projects publish them, some lines long."""

GERMAN = """\
# Version :: made up 1
# License :: none
Katzenhai {m}; Hund {m} [zool.] :: dogfish; dog [coll.]
Rüde {m} (männlicher Hund) | Rüden {pl} :: male dog; dog | male dogs
Hund {m} [zool.] | Hunde {pl} | Der Hund bellt. :: dog | dogs | The dog barks.
bellen {vi} [zool.] | bellend | er/sie bellt :: to bark | barking | he/she barks
Rinde {f}; Borke {f} [bot.] :: bark
ein Hundeleben {n} führen :: to lead a dog's life
laut; lautstark; geräuschvoll {adj} :: loud; noisy
laut {adv} :: loudly
die Hitze {f} :: heat
Käfer {m,f} [zool.] | Käfer {pl} :: beetle
Scheren {pl} :: scissors
no separator here
:: empty
"""
SPANISH = """\
^dog<n><sg>/perro<n><m><sg>/can<n><m><sg>$ ^bark<vblex><inf>/ladrar<vblex><inf>$
^bark<n><sg>/corteza<n><f><sg>$ ^loud<adj><sint>/ruidoso<adj><mf>$ ^loudly<adv>/alto<adv>$
^beetle<n><sg>/@beetle<n><sg>$ ^heat<n><sg>/calor<vblex><inf>$ ^noisy<adj>/muy ruidoso<adj>$
"""
